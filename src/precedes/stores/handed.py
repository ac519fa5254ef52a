"""Settings of stores, handed on to processes on other machines."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

from precedes.stores.address import Address

PREFIXES: Final = ("AWS_", "AZURE_", "GOOGLE_", "STORAGE_EMULATOR_HOST")

Work = Callable[[Iterator[Any]], Iterator[Any]]


def handed(work: Work, *addresses: Address) -> Work:
    """Work for another machine that opens these addresses with the settings of this process.

    They go with the work, so that they reach machines which were started without them; a machine
    without any of its own may be given a role instead. Work on paths goes as it is.
    """
    return work if all(address.is_local for address in addresses) else _Handed(work)


class _Handed:
    def __init__(self, work: Work) -> None:
        self._work = work
        self._variables = {k: v for k, v in os.environ.items() if k.startswith(PREFIXES)}

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        with _set(self._variables):
            yield from self._work(batches)


@contextlib.contextmanager
def _set(variables: dict[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

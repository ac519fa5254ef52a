"""Names of a package that are imported when they are first asked for.

The command line thus answers before Numba or pyarrow are there, and a live member without them.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def exports(
    package: str, homes: Mapping[str, str], *, extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package; ``homes`` has the module of each name.

    If one of them cannot be imported because ``extra`` is not installed, the error says so.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            return getattr(importlib.import_module(homes[name], package), name)
        except ModuleNotFoundError as error:
            if extra is None or is_ours(error.name):
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs {error.name}: pip install 'precedes[{extra}]'",
                name=error.name,
            ) from None

    def names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *homes})

    def is_ours(module: str | None) -> bool:
        return module is None or module.partition(".")[0] == package.partition(".")[0]

    return find, names

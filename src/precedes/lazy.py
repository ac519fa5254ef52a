"""Names of a package that are imported on first use.

The command line thus starts before Numba or pyarrow are imported, and a live member without them.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any


def exports(
    package: str, homes: Mapping[str, str], *, extra: str | None = None
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package; ``homes`` has the module of each name.

    If one of them cannot be imported because ``extra`` is not installed, the error says so. A name
    whose module bears it is that module, which can be called: an import has put it there. ``dir``
    lists these names only.
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        try:
            home = importlib.import_module(homes[name], package)
            return home if homes[name] == f".{name}" else getattr(home, name)
        except ModuleNotFoundError as error:
            if extra is None or is_ours(error.name):
                raise
            raise ModuleNotFoundError(
                f"{package}.{name} needs {error.name}: pip install 'precedes[{extra}]'",
                name=error.name,
            ) from None

    def names() -> list[str]:
        return sorted(homes)

    def is_ours(module: str | None) -> bool:
        return module is None or module.partition(".")[0] == package.partition(".")[0]

    return find, names

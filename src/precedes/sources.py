"""Source files that a piece of code depends on, and a digest of them.

Cached results are filed under the digest of their sources: the files that their
imports reach. An edit of a page or of the command line then invalidates nothing, an edit of a
clock all results that depend on it.
"""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PACKAGE: Final = Path(__file__).parent
# Files that an installed package shows and copies for users (`precedes docs`, `precedes examples`):
# some are Python, none is executed by the package.
SHARE: Final = PACKAGE / "share"


def files() -> list[Path]:
    """Every source file of the package."""
    return sorted(path for path in PACKAGE.rglob("*.py") if not path.is_relative_to(SHARE))


def digest_of_file(path: Path) -> bytes:
    """A digest of a file's content; of a missing one, that of an empty one."""
    try:
        return hashlib.sha256(path.read_bytes()).digest()
    except FileNotFoundError:
        return hashlib.sha256().digest()


# The sources of the running code. Code compiled after an edit is still that of before the edit,
# and must not be filed under the sources of after.
_AT_IMPORT: Final = {path: digest_of_file(path) for path in files()}


def are_as_imported(paths: Iterable[Path]) -> bool:
    """Return whether these files, if in the package, are those that this process runs."""
    return all(
        _AT_IMPORT.get(path) == digest_of_file(path)
        for path in paths
        if path.is_relative_to(PACKAGE)
    )


def digest(paths: Iterable[Path], *, more: str = "") -> str:
    """A digest of the names and contents of files, and of ``more``."""
    hasher = hashlib.sha256(more.encode())
    for path in sorted(set(paths)):
        name = path.relative_to(PACKAGE) if path.is_relative_to(PACKAGE) else path
        hasher.update(f"{name}\0".encode())
        hasher.update(digest_of_file(path))
    return hasher.hexdigest()[:24]


# Files that no run depends on: requests, comparison with papers, display. Listed, because
# follow all imports takes a fifth of a second; a test compares it with what runs do import.
OUTSIDE_RUNS: Final = frozenset(
    {"cli", "comparison", "console.py", "live", "pages", "progress.py", "provenance.py"}
    | {"testing", "viewer"}
)


def is_outside_runs(path: Path) -> bool:
    """Return whether an edit of this file of the package leaves finished runs as they are."""
    return path.relative_to(PACKAGE).parts[0] in OUTSIDE_RUNS


@functools.cache
def digest_of_runs() -> str:
    """A digest of the sources of runs, as this process runs them; nothing is read again."""
    hasher = hashlib.sha256()
    for path, content in _AT_IMPORT.items():
        if not is_outside_runs(path):
            hasher.update(f"{path.relative_to(PACKAGE)}\0".encode())
            hasher.update(content)
    return hasher.hexdigest()


def closure(starts: Iterable[Path]) -> tuple[Path, ...]:
    """The files that these import, directly or not, and they themselves, in order.

    Only files of the package are followed, and packages on the way to a module do not count:
    their ``__init__`` exports names and is imported only for those names.
    """
    paths: set[Path] = set()
    unread = list(starts)
    while unread:
        path = unread.pop()
        if path not in paths:
            paths.add(path)
            unread += _imported(path, digest_of_file(path))
    return tuple(sorted(paths))


@functools.lru_cache(maxsize=1024)
def _imported(path: Path, _content: bytes) -> tuple[Path, ...]:
    """The files of the package that a file imports itself, for its present content."""
    if not path.is_file():
        return ()
    is_inside = path.is_relative_to(PACKAGE)
    package = path.relative_to(PACKAGE.parent).parent.parts if is_inside else ()
    names = imports(ast.parse(path.read_bytes()), package)
    return tuple({file for name in names if (file := _file_of(name)) is not None})


def imports(tree: ast.Module, package: tuple[str, ...] = ()) -> Iterator[str]:
    """Dotted names that a file imports: of ``from a import b`` it is a.b, module or not.

    ``package`` is where relative imports start. Imports for type checkers alone are left out.
    """
    unread: list[ast.AST] = [tree]
    while unread:
        node = unread.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            unread += node.orelse
            continue
        unread += ast.iter_child_nodes(node)
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*start, *([node.module] if node.module else [])])
            yield from (f"{module}.{alias.name}" for alias in node.names)


def _file_of(name: str) -> Path | None:
    """The file of a module of the package, or of the module that holds this name."""
    parts = name.split(".")
    if parts[0] != PACKAGE.name:
        return None
    for length in (len(parts), len(parts) - 1):
        base = PACKAGE.joinpath(*parts[1:length])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if length > 0 and path.is_file() and path.is_relative_to(PACKAGE):
                return path
    return None

"""Checks what no linter knows about this repository: `python tools/tidy.py [ROOT]`.

Prints one line per finding, `path:line: what`, and exits 1 if there is any.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FUNCTION_LINES_MAX = 60
FILE_BYTES_MAX = 1_000_000

# Who may import whom: only to the left. `trace` and `audit` see less than their place would
# allow, because an oracle shares no code with what it judges; a run hands its events to a
# writer that is passed in.
BASE = frozenset({"model", "sources", "compiled"})
CONTRACT = BASE | {"contract"}
HOSTS = CONTRACT | {"registry"}
MAY_IMPORT = {
    "model": frozenset(),
    "sources": frozenset(),
    "compiled": frozenset({"model", "sources"}),
    "intervals": frozenset(),
    "contract": BASE,
    "parts": CONTRACT,
    "protocols": CONTRACT | {"parts"},
    "registry": CONTRACT,  # it finds protocols by their names
    "sim": HOSTS,
    # Whoever judges may not know the judged; a cluster may well ask for its own verdict.
    "live": HOSTS | {"console", "parts", "protocols", "trace", "audit"},
    "trace": frozenset({"model"}),
    "console": frozenset({"model"}),
    "audit": frozenset({"model", "compiled", "trace"}),
    "pipeline": HOSTS | {"intervals", "sim", "live", "trace", "audit", "console", "cli"},
    "papers": HOSTS | {"intervals", "parts", "sim", "live", "trace", "audit", "pipeline"},
    "report": frozenset({"model", "papers"}),
}
# A file that may import more than its part: it hands a run to the writer of its trace.
MORE = {"sim/runs": frozenset({"trace"})}
FREE = frozenset({"cli", "testing", "__init__", "__main__"})  # may import everything

# Modules that only these parts of the package may import. The pipeline knocks at a Spark master
# before Spark waits a minute for it; whatever else is sent or received is live's.
OWNERS = {
    "numba": ("compiled",),
    "llvmlite": ("compiled",),
    "pyspark": ("pipeline",),
    "asyncio": ("live",),
    "socket": ("live", "pipeline"),
    "uvloop": ("live",),
    "matplotlib": ("report",),
    "prometheus_client": ("live",),
}

TEXT_SUFFIXES = frozenset({".py", ".md", ".toml", ".js", ".css", ".html", ".txt", ".cfg", ""})
# The classes keep this file from finding itself.
LEFT_OVER = re.compile(r"\b(t[o]do|fi[x]me|x[x]x|h[a]ck)\b", re.IGNORECASE)

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """Something to mend, and where."""

    path: str
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.what}"


def repository_files(root: Path) -> list[Path]:
    """Files that are in git or could be added to it; without git, all but hidden and built ones."""
    command = ["git", "-C", str(root), "ls-files", "-z", "-co", "--exclude-standard"]
    if (root / ".git").exists():
        listed = subprocess.run(command, capture_output=True, text=True, check=False)
        if listed.returncode == 0:
            found = (root / name for name in listed.stdout.split("\0") if name)
            return sorted(path for path in found if path.is_file())
    skipped = {"build", "dist", "__pycache__"}
    return sorted(
        path
        for path in root.rglob("*")
        if path.is_file()
        and not any(p in skipped or p.startswith(".") for p in path.relative_to(root).parts[:-1])
    )


def imports(tree: ast.Module, package: list[str]) -> Iterator[tuple[int, str]]:
    """Dotted names that a file imports; ``package`` is where a relative import starts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = ".".join([*start, *([node.module] if node.module else [])])
            if module == "precedes":
                yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
            else:
                yield node.lineno, module


def check_imports(path: str, tree: ast.Module) -> Iterator[Finding]:
    """The direction of imports inside the package, and the owners of outside modules."""
    parts = Path(path).with_suffix("").parts[2:]  # src/precedes/...
    part = parts[0]
    if part not in MAY_IMPORT and part not in FREE:
        yield Finding(path, 1, f"{part} has no place in the import order of tools/tidy.py")
        return
    allowed = MAY_IMPORT.get(part, frozenset()) | MORE.get("/".join(parts), frozenset())
    for line, name in imports(tree, ["precedes", *parts[:-1]]):
        top, _, rest = name.partition(".")
        if top == "precedes":
            target = rest.partition(".")[0]
            if part not in FREE and target not in {part, *allowed}:
                yield Finding(path, line, f"{part} may not import {name}")
        elif part not in OWNERS.get(top, (part,)):
            yield Finding(path, line, f"only {' and '.join(OWNERS[top])} may import {top}")


def check_docstrings(path: str, tree: ast.Module) -> Iterator[Finding]:
    """A docstring for the module and each public class, function and method."""
    name = Path(path).stem
    if name.startswith("_") and not name.startswith("__"):
        return
    if ast.get_docstring(tree) is None:
        yield Finding(path, 1, "module has no docstring")
    yield from _undocumented(path, tree.body)


def _undocumented(path: str, body: Iterable[ast.stmt]) -> Iterator[Finding]:
    for node in body:
        if not isinstance(node, Definition | ast.ClassDef) or node.name.startswith("_"):
            continue
        decorators = {
            ast.unparse(decorator).rpartition(".")[2] for decorator in node.decorator_list
        }
        if ast.get_docstring(node) is None and not decorators & {"overload", "setter", "override"}:
            yield Finding(path, node.lineno, f"{node.name} has no docstring")
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(path, node.body)


def check_lengths(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Functions that fit into a head; a file is one concept, however long that is."""
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                what = f"{node.name} has {length} lines (max {FUNCTION_LINES_MAX})"
                yield Finding(path, node.lineno, what)


def check_left_overs(path: str, text: str) -> Iterator[Finding]:
    """Notes to oneself belong in an issue."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := LEFT_OVER.search(line):
            yield Finding(path, number, f"left-over note: {found.group()}")


def check_protocol_pages(root: Path) -> Iterator[Finding]:
    """Each protocol has its page."""
    folder = root / "src/precedes/protocols"
    for file in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        name = file.parent.name if file.stem == "__init__" else file.stem
        page = f"docs/protocols/{name}.md"
        states = re.search(r"^GUARANTEE\b", file.read_text(encoding="utf-8"), re.MULTILINE)
        if states and not (root / page).is_file():
            yield Finding(file.relative_to(root).as_posix(), 1, f"protocol has no page {page}")


def check_changelog(root: Path) -> Iterator[Finding]:
    """What users will get next is written down."""
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
    if not re.search(r"^## \[?Unreleased\]?", text, re.MULTILINE):
        yield Finding("CHANGELOG.md", 1, "no Unreleased section")


def check_file(path: str, file: Path) -> Iterator[Finding]:
    """Every check that looks at one file."""
    size_bytes = file.stat().st_size
    if size_bytes > FILE_BYTES_MAX:
        yield Finding(path, 1, f"file of {size_bytes} bytes (max {FILE_BYTES_MAX})")
        return
    if file.suffix not in TEXT_SUFFIXES:
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    yield from check_left_overs(path, text)
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield Finding(path, error.lineno or 1, f"does not parse: {error.msg}")
        return
    yield from check_lengths(path, tree)
    if path.startswith("src/precedes/"):
        yield from check_imports(path, tree)
        yield from check_docstrings(path, tree)


def check(root: Path) -> list[Finding]:
    """All findings in a repository, in the order of their paths."""
    findings = [*check_protocol_pages(root), *check_changelog(root)]
    for file in repository_files(root):
        findings += check_file(file.relative_to(root).as_posix(), file)
    return sorted(findings)


def main(arguments: list[str]) -> int:
    """Print the findings; 1 if there are any."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    findings = check(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

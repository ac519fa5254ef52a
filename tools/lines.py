"""Counts code: `python -m tools.lines [--record] [ROOT]`.

Prints of each package its code lines (without blank lines, comments and docstrings), files,
functions, helpers (private functions that their file mentions once) and lines of imports. With
`--record` today's numbers become the maxima of tools/tidy.py; say in the commit why one has risen.
"""

import ast
import sys
from collections import Counter
from pathlib import Path

from tools import tidy

COLUMNS = ("code", "files", "functions", "helpers", "imports")
HEAD = """\
# Numbers that may only fall, as `python -m tools.lines --record` writes them; tools/tidy.py checks.
# A commit that raises one says why.
"""


def counts(text: str) -> Counter[str]:
    """The columns of one file."""
    tree = ast.parse(text)
    found = Counter(code=tidy.code_lines(text, tree), files=1)
    mentions, private = Counter[str](), []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            mentions[node.id] += 1
        elif isinstance(node, ast.Attribute):
            mentions[node.attr] += 1
        elif isinstance(node, tidy.Definition):
            found["functions"] += 1
            if node.name.startswith("_") and not node.name.endswith("__"):
                private.append(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found["imports"] += node.end_lineno - node.lineno + 1
    found["helpers"] = sum(mentions[name] == 1 for name in private)
    return found


def table(root: Path) -> str:
    """A line for each package, the largest first, and one for all of src."""
    rows: dict[str, Counter[str]] = {}
    for file in tidy.repository_files(root):
        path = file.relative_to(root).as_posix()
        if file.suffix == ".py" and "/" in path:
            found = counts(file.read_text(encoding="utf-8"))
            rows.setdefault(tidy.package_of(path), Counter()).update(found)
    own = [row for name, row in rows.items() if name.startswith("precedes")]
    ordered = [("package", dict(zip(COLUMNS, COLUMNS, strict=True)))]
    ordered += sorted(rows.items(), key=lambda row: -row[1]["code"])
    ordered += [("all of src", sum(own, Counter()))]
    return "\n".join(
        f"{name:24}" + "".join(f"{row[column]:>10}" for column in COLUMNS) for name, row in ordered
    )


def recorded(root: Path) -> str:
    """The numbers of today as the table that tools/tidy.py reads."""
    now = tidy.measure(root)
    text = HEAD + "\nnames = [\n"
    text += "".join(f'    "{name}",\n' for name in sorted(now["names"])) + "]\n"
    for section in ("code_lines", "files"):
        rows = (f'"{name}" = {count}\n' for name, count in sorted(now[section].items()))
        text += f"\n[{section}]\n" + "".join(rows)
    return text


def main(arguments: list[str]) -> None:
    """Print the table, or write the maxima."""
    places = [argument for argument in arguments if argument != "--record"]
    root = Path(places[0]) if places else Path(__file__).resolve().parent.parent
    if "--record" in arguments:
        (root / tidy.RATCHETS).write_text(recorded(root), encoding="utf-8")
    else:
        print(table(root))


if __name__ == "__main__":
    main(sys.argv[1:])

"""Edits of mutants survive other names of local variables, and files without comments."""

import ast
import functools
import inspect
from pathlib import Path

import pytest

from precedes import sources
from tests.live.member import test_hostile
from tests.mutants import (
    test_audit_mutants,
    test_bundled_mutants,
    test_dcs_mutants,
    test_failure_detector_mutants,
    test_flooding_mutants,
    test_hashed_mutants,
    test_live_mutants,
    test_probabilistic_mutants,
    test_vcube_crash_mutants,
    test_vcube_mutants,
    test_vector_mutants,
)
from tests.support import edited
from tests.support.convictions import assert_convicted
from tests.support.mobile import mutants

# What a protocol is made of, and the tables of its mutants.
TABLES = {
    "vector": [test_vector_mutants.MUTANTS],
    "vcube": [test_vcube_mutants.MUTANTS, test_vcube_crash_mutants.MUTANTS],
    "bundled": [test_bundled_mutants.MUTANTS],
    "dcs": [test_dcs_mutants.MUTANTS, {"IV-D": [test_dcs_mutants.COUNTERS]}],
    "hashed": [
        test_hashed_mutants.MUTANTS,
        test_hashed_mutants.WASTEFUL,
        {"others": [test_hashed_mutants.ACCEPTED]},
        {"one by one": [test_hashed_mutants.ONE_BY_ONE]},
    ],
    "probabilistic": [{"printed": test_probabilistic_mutants.PRINTED}],
    "failure_detector": [test_failure_detector_mutants.MUTANTS],
    "flooding": [test_flooding_mutants.MUTANTS],
    "mobile": [mutants.MUTANTS],
}
PARTS = {"failure_detector": "tester", "hashed": "hash_check"}


def cases():
    """Each mutant as its name, the files it is made of, and its edits."""
    for protocol, tables in TABLES.items():
        paths = [edited.FOLDER / protocol]
        paths += [sources.PACKAGE / "parts" / PARTS[protocol]] if protocol in PARTS else []
        for table in tables:
            for name, row in table.items():
                edits = [one for one in row if type(one) is tuple]
                yield f"{protocol}: {name}", paths, edits
    for name, edit in test_hostile.CLAUSES.items():
        yield f"admits of {name}", [edited.FOLDER / name.partition(":")[0]], [edit]
    for name, (_, home, edit) in test_audit_mutants.MUTANTS.items():
        yield f"audit: {name}", [sources.PACKAGE / "audit" / home], [edit]
    for name, mutant in test_live_mutants.MUTANTS.items():
        module, where = test_live_mutants.home_of(mutant.where)
        yield f"live: {name}", [Path(inspect.getfile(module))], [(where, *mutant.edit)]


CASES = {name: (paths, edits) for name, paths, edits in cases()}


class Renaming(ast.NodeTransformer):
    """Gives local variables other names, and leaves docstrings out."""

    def __init__(self, kept=frozenset()):
        self.kept = kept
        self.names = None  # of the outermost function

    def visit(self, node):
        if isinstance(node, (*edited.FUNCTIONS, ast.ClassDef, ast.Module)):
            if ast.get_docstring(node) is not None:
                node.body = node.body[1:] or [ast.Pass()]
            if isinstance(node, edited.FUNCTIONS) and self.names is None:
                self.names = self.number(node)
                self.generic_visit(node)
                self.names = None
                return node
        for field in ("id", "arg"):
            name = getattr(node, field, None)
            if self.names and isinstance(node, (ast.Name, ast.arg)) and name in self.names:
                setattr(node, field, self.names[name])
        return self.generic_visit(node)

    def number(self, function):
        """New names, by the order in which the old ones appear."""
        wanted = edited.local_names(function) - self.kept
        found = [getattr(n, "id", getattr(n, "arg", None)) for n in ast.walk(function)]
        return {name: f"local_{i}" for i, name in enumerate(dict.fromkeys(found)) if name in wanted}


def renamed(texts):
    """The same programs, written by somebody else; what is passed by its name keeps it."""
    trees = {key: ast.parse(text) for key, text in texts.items()}
    kept = {n.arg for tree in trees.values() for n in ast.walk(tree) if isinstance(n, ast.keyword)}
    return {key: ast.unparse(Renaming(kept).visit(tree)) for key, tree in trees.items()}


@functools.cache
def written(*paths):
    """The files of these modules or packages, and the same in other words."""
    texts = {}
    for path in paths:
        files = sorted(path.rglob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
        texts |= {file: file.read_text() for file in files}
    return texts, renamed(texts)


def shown(texts, edits, *, made=True):
    """The functions that edits change, after it or before, whatever their locals are called."""
    names = [where.partition("(")[0].rpartition(".")[2] for where, *_ in edits]
    trees = {
        key: ast.parse(text) for key, text in texts.items() if any(name in text for name in names)
    }
    for edit in edits if made else ():
        edited.mutate(trees, *edit)
    scopes = [edited.scopes(tree, where) for where, *_ in edits for tree in trees.values()]
    return [ast.unparse(Renaming().visit(scope)) for found in scopes for scope, _ in found]


@pytest.mark.parametrize("name", CASES)
def test_an_edit_is_the_same_in_other_words(name):
    paths, edits = CASES[name]
    texts, others = written(*paths)
    found = shown(texts, edits)
    assert found == shown(others, edits)
    assert found != shown(texts, edits, made=False)


@pytest.mark.parametrize("mistake", list(test_vector_mutants.MUTANTS)[:4])
def test_and_is_convicted_for_the_same(tmp_path, mistake):
    reason, *edits = test_vector_mutants.MUTANTS[mistake]
    mutant = edited.protocol(tmp_path, "vector")
    for file, text in written(tmp_path / "edited")[1].items():
        file.write_text(f'"""A copy."""\n{text}')
    edited.change(tmp_path / "edited", *edits)
    assert "clock[source]" not in (tmp_path / "edited/__init__.py").read_text()
    assert_convicted(mistake, test_vector_mutants.trials(mutant), reason)


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        (("f", "g(...)", ""), "stands in 0 places"),
        (("f", "total += one", ""), "stands in 2 places"),
        (("absent", "total = 0", ""), "stands in 0 places"),
        (("f", "total = 0", "total = many"), "{'many'} are local variables that nothing"),
    ],
)
def test_an_edit_that_is_not_clear_is_refused(edit, says):
    text = "def f(many):\n total = 0\n for one in many:\n  total += one\n  total += one\n"
    with pytest.raises(AssertionError, match=says):
        edited.mutate({"": ast.parse(text)}, *edit)


@pytest.mark.parametrize(
    ("edit", "new"),
    [
        (("f(a)", "", "return a"), "def f(x, y):\n    return x\n    return g(x, k=y) + 1"),
        (("f", "g(..., k=b)", "h(..., k=2)"), "def f(x, y):\n    return h(x, k=2) + 1"),
        (
            ("f", "g(...)", "(g(...), g(...))"),
            "def f(x, y):\n    return (g(x, k=y), g(x, k=y)) + 1",
        ),
        (("f(a, b)", "g(a, ...)", "b", "g(a, k=b)"), "def f(x, y):\n    return y + 1"),
        (("f", "return ...", ""), "def f(x, y):\n    pass"),
        (("", "", "c = 1"), "def f(x, y):\n    return g(x, k=y) + 1\nc = 1"),
    ],
)
def test_what_an_edit_makes(edit, new):
    tree = ast.parse("def f(x, y):\n    return g(x, k=y) + 1")
    edited.mutate({"": tree}, *edit)
    assert ast.unparse(tree) == new


def test_a_name_that_doctests_leave_behind_stands_for_any(tmp_path, monkeypatch):
    """The last result of a prompt is kept among Python's own names."""
    monkeypatch.setattr("builtins._", 1, raising=False)
    edit = ("receive(state)", "_.deliver(slot)", "_.deliver(slot); return")
    text = (Path(edited.protocol(tmp_path, "vector", edit)) / "__init__.py").read_text()
    assert "return" in text.partition("host.deliver(slot)")[2].partition("else")[0]

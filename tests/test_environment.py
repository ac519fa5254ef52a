"""The page of environment variables has those that the package reads, and no others."""

import ast
import importlib
import re
import sys

import pytest

from precedes import sources
from precedes.compiled.options import Switches
from precedes.stores.address import SETTINGS
from tests.support.places import ROOT

PAGE = (ROOT / "docs/environment.md").read_text(encoding="utf-8")
READ, LIBRARIES = PAGE.split("## Variables of the libraries")
ROW = re.compile(r"^\| (`[A-Z].*?) \|", re.MULTILINE)
VARIABLE = re.compile(r"`([A-Z][A-Z0-9_]+)`")


def of_page():
    """The variables in the first cells of the tables."""
    return {name for row in ROW.findall(READ) for name in VARIABLE.findall(row)}


def is_environment(node):
    """Return whether an expression is the environment, or a parameter that receives it."""
    return ast.unparse(node) in ("os.environ", "environment")


def reads(tree):
    """The expressions of the variables that a file reads."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            function = ast.unparse(node.func)
            if function == "os.getenv":
                yield node.args[0]
            elif isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "setdefault"):
                yield from node.args[:1] if is_environment(node.func.value) else []
        elif isinstance(node, ast.Subscript) and is_environment(node.value):
            if isinstance(node.ctx, ast.Load):
                yield node.slice
        elif isinstance(node, ast.Compare) and is_environment(node.comparators[0]):
            yield node.left


def names_of(expression, module):
    """The variables that an expression stands for; none, if it is one of a loop over others'."""
    if isinstance(expression, ast.Constant):
        return {expression.value}
    text = ast.unparse(expression)
    if text == "f'PRECEDES_{name.upper()}'":
        return {f"PRECEDES_{name.upper()}" for name in Switches._fields}
    if isinstance(expression, ast.Name) and text.isupper():
        return {getattr(module, text)}
    assert text == "name", f"{text}: a variable that this test does not understand"
    return set()


def of_sources():
    found = set()
    for path in sources.files():
        text = path.read_text(encoding="utf-8")
        if "environ" not in text and "getenv" not in text:
            continue
        parts = path.relative_to(sources.PACKAGE.parent).with_suffix("").parts
        expressions = list(reads(ast.parse(text)))
        module = importlib.import_module(".".join(parts).removesuffix(".__init__"))
        for expression in expressions:
            found |= names_of(expression, module)
    return found


def test_the_page_has_what_is_read():
    assert of_page() == of_sources()


def test_the_page_has_what_is_handed_on():
    for prefix in SETTINGS:
        assert f"`{prefix}`" in PAGE


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("os.environ.get('NEW')", "NEW"),
        ("os.environ['NEW']", "NEW"),
        ("'NEW' in os.environ", "NEW"),
        ("os.getenv('NEW', '1')", "NEW"),
        ("os.environ.get(NEW_NAME)", "named"),
    ],
)
def test_every_way_to_read_one_is_found(line, name, monkeypatch):
    """The twin: a variable that is not on the page."""
    module = sys.modules[__name__]
    monkeypatch.setattr(module, "NEW_NAME", "named", raising=False)
    (expression,) = reads(ast.parse(line))
    assert names_of(expression, module) == {name}
    assert name not in of_page()


def test_what_is_set_is_not_read():
    assert list(reads(ast.parse("os.environ['NEW'] = '1'"))) == []
    with pytest.raises(AssertionError, match="does not understand"):
        names_of(ast.parse("a + b").body[0].value, sys.modules[__name__])

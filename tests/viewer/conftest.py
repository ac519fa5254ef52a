"""Pages of made-up executions, each written once for the tests of a file."""

import pytest

from tests.support import view_pages


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("view")


@pytest.fixture(scope="module")
def broken(folder):
    """A page of an execution that breaks the order, and the execution."""
    made = view_pages.random_execution(3, nodes=6, messages=40, causal=False)
    return view_pages.write(folder / "broken.html", made), made


@pytest.fixture(scope="module")
def ordered(folder):
    """The same load in causal order, with waits."""
    made = view_pages.random_execution(3, nodes=6, messages=40)
    return view_pages.write(folder / "ordered.html", made), made

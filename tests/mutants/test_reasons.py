"""A mutant proves something only if it runs, and is convicted for the reason of its mistake."""

import ast
import functools
from pathlib import Path

import pytest

from precedes.testing import Kind, check_scenario, random_scenario
from tests.support.convictions import Convicted, Raises, Unproven, assert_convicted, hold
from tests.support.edited import protocol

READY = "clocks.covers(clock, need)"


def trials(directory, new):
    """Schedules on which ``vector`` is judged with one condition of it replaced."""
    mutant = protocol(directory, "vector", ("receive", READY, new))
    for seed in range(1, 8):
        yield functools.partial(check_scenario, random_scenario(mutant, seed), compiled=False)


@pytest.mark.parametrize(
    ("new", "error"),
    [
        ("clocks.covers(clock, nead)", "NameError"),
        ("clocks.covers(clock)", "TypeError"),
        ("clocks.cover(clock, need)", "AttributeError"),
        ("clock[10**6] or True", "IndexError"),
        ("int(clock[0]) // 0", "ZeroDivisionError"),
        ("int('x')", "ValueError"),
    ],
)
def test_a_mutant_that_does_not_run_convicts_nobody(tmp_path, new, error):
    with pytest.raises(Unproven, match=f"proves nothing: {error}"):
        assert_convicted("a slip", trials(tmp_path, new), Kind.ORDER)


def test_a_failed_assertion_of_its_own_is_no_verdict():
    def slip():
        assert 1 == 2

    with pytest.raises(Unproven, match="proves nothing: AssertionError"):
        assert_convicted("a slip", [slip], "order")


def test_another_reason_is_not_the_reason(tmp_path):
    judged = list(trials(tmp_path, "True"))[3:]
    assert_convicted("out of order", judged, Kind.ORDER)
    with pytest.raises(Unproven, match="convicted for order, not for lost"):
        assert_convicted("out of order", judged, Kind.LOST)


def test_who_does_nothing_wrong_is_not_convicted(tmp_path):
    with pytest.raises(AssertionError, match="nobody noticed"):
        assert_convicted("nothing", trials(tmp_path, READY), Kind.ORDER)


def test_an_error_is_a_reason_by_its_class_and_its_words():
    def fall():
        raise IndexError("index 9 is out of bounds")

    assert_convicted("a fall", [fall], Raises(IndexError, "out of bounds"))
    for other in (Raises(IndexError, "pop from"), Raises(LookupError, "out of bounds"), "lost"):
        with pytest.raises(Unproven, match="proves nothing: IndexError"):
            assert_convicted("a fall", [fall], other)


def test_a_verdict_has_its_reason():
    with pytest.raises(Convicted) as raised:
        hold(False, "lost", "three of them")
    assert (raised.value.reason, str(raised.value)) == ("lost", "lost: three of them")
    hold(True, "lost")


def catches_much(node):
    """Whether a piece of code takes any error, or any assertion unseen, for what it expects."""
    broad = {"Exception", "BaseException", "AssertionError"}
    if isinstance(node, ast.ExceptHandler):
        caught = node.type
        broad -= {"AssertionError"} if node.name else set()  # which one it was is looked at
    elif isinstance(node, ast.Call) and ast.unparse(node.func) == "pytest.raises":
        caught = None if not node.args else node.args[0]
        broad -= {"AssertionError"} if node.keywords else set()  # its words are asked for
    else:
        return False
    return caught is None or not broad.isdisjoint(
        name.id for name in ast.walk(caught) if isinstance(name, ast.Name)
    )


def test_no_test_of_mutants_takes_any_error_for_a_verdict():
    for path in sorted(Path(__file__).parent.glob("*.py")):
        found = [
            node.lineno for node in ast.walk(ast.parse(path.read_text())) if catches_much(node)
        ]
        assert not found, f"{path.name}: line {found}"


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    pass\nexcept Exception:\n    pass",
        "try:\n    pass\nexcept (KeyError, AssertionError):\n    pass",
        "try:\n    pass\nexcept:\n    pass",
        "with pytest.raises(AssertionError):\n    pass",
        "with pytest.raises(Exception, match='it'):\n    pass",
    ],
)
def test_and_would_be_found_if_one_did(text):
    assert any(map(catches_much, ast.walk(ast.parse(text))))

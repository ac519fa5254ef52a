"""Mistakes that one could make in the audit, each found by the definitions."""

import functools
import importlib
import inspect
import re
import textwrap

import pytest

from precedes import compiled
from precedes.audit import audit
from precedes.audit.stages import Loop
from tests.audit.test_stages import anything, bridged
from tests.support import executions
from tests.support.audits import ExecutionRows
from tests.support.convictions import Raises, assert_convicted, conviction, hold
from tests.support.edited import edit
from tests.support.executions import BROADCAST, DELIVER, Execution

MODULES = ("order", "hear", "table", "settle", "judge", "cycles", "stages", "witness")
COUNTS = (
    "violations", "violating_messages", "deliveries", "duplicates", "phantom", "cycles", "lost",
    "unjudged", "undelivered_at_end",
)  # fmt: skip

# Where, and which words are changed to which.
MUTANTS = {
    "a floor one too high": (
        "hear._reach", "return int(reach) if", "return int(reach) + 1 if"
    ),
    "a floor at the start of a block speaks of the one before": (
        "hear._reach", "if reach > order.bounds[block] else 0", "if reach >= 0 else 0"
    ),
    "a floor above its own message": (
        "hear._broadcast", "    lists.floor[message] = _reach",
        "    ear.known[node] = seq\n    lists.floor[message] = _reach"
    ),
    "known before it is delivered": (
        "hear._reach", "order.seq[reach] <= ear.known", "order.seq[reach] <= 1 + ear.known"
    ),
    "own deliveries before the broadcast forgotten": (
        "hear._broadcast", "registers[_AHEAD] >= seq", "registers[_AHEAD] > seq"
    ),
    "changes forgotten at every broadcast but the first": (
        "hear.hear_rows", "elif q > ear.known[s]:", "elif q > ear.known[s] + (registers[_SEQ] > 0):"
    ),
    "a node begins with what the one before knew": (
        "hear.forget", "ear.known[s] = 0", "ear.known[s] = ear.known[s]"
    ),
    "phantoms in lists": (
        "stages._heard", "if spoilt:", "if spoilt and False:"
    ),
    "entries at the floor dropped": (
        "table._keep_units", "place >= low[", "place > low["
    ),
    "the blocks' floors taken together": (
        "table._raise", "low[block] = max(low[block], floor)", "low[:] = max(low[block], floor)"
    ),
    "not verified where a list lies above": (
        "table.prune_lists", "if kept[k] >= own:", "if kept[k] > own + 99:"
    ),
    "counts not cut to what is resolved": (
        "stages._pasts", "table._replace(counts=resolved_counts(table))",
        "(resolved_counts(table), table)[1]"
    ),
    "the predecessor not asked for": (
        "judge._have", "if seq == seat.sat[source] + 1:", "if seq >= seat.sat[source] + 1:"
    ),
    "what waits is not woken": (
        "settle._wake", "<= seat.sat[source]:", "< seat.sat[source]:"
    ),
    "late ones do not settle": (
        "judge.judge_rows", "if seat.waiters[s] >= 0 or has_bit(seat.late, message + 1):",
        "if seat.waiters[s] >= 0:"
    ),
    "a seat that is not emptied": (
        "settle.leave_seat", "seat.sat[s] = 0", "seat.sat[s] = seat.sat[s]"
    ),
    "a join covers one too few": (
        "judge._join", "seat.covered[source] = max(seat.covered[source], seq)",
        "seat.covered[source] = max(seat.covered[source], seq - 1)"
    ),
    "a join excuses own deliveries": (
        "judge._join", "if source == node:", "if source == node and seq == 0:"
    ),
    "a broadcast counts where an own delivery does": (
        "judge.judge_rows", "if facts.own[message] == 0 and q", "if q"
    ),
    "a message that lists itself is in no cycle": (
        "cycles.find_cycles", "cyclic[m] = 1", "cyclic[m] = 0"
    ),
}  # fmt: skip
# The audit checks its own witnesses.
UNPROVED = Raises(AssertionError, "the kernels and the rows disagree")
# What each is convicted for.
REASONS = {
    "a floor one too high": "violations",
    "a floor at the start of a block speaks of the one before": "violations",
    "a floor above its own message": "violations",
    "known before it is delivered": "violations",
    "own deliveries before the broadcast forgotten": "violations",
    "changes forgotten at every broadcast but the first": "violations",
    "a node begins with what the one before knew": "violations",
    "phantoms in lists": "cycles",
    "entries at the floor dropped": "violations",
    "the blocks' floors taken together": "violations",
    "not verified where a list lies above": UNPROVED,
    "counts not cut to what is resolved": UNPROVED,
    "the predecessor not asked for": "violations",
    "what waits is not woken": "violations",
    "late ones do not settle": UNPROVED,
    "a seat that is not emptied": "duplicates",
    "a join covers one too few": "duplicates",
    "a join excuses own deliveries": "duplicates",
    "a broadcast counts where an own delivery does": "violations",
    "a message that lists itself is in no cycle": "cycles",
}


def mutate(monkeypatch, where, old, new):
    """Run the audit interpreted, with one function edited wherever it is used."""
    modules = [importlib.import_module(f"precedes.audit.{name}") for name in MODULES]
    home, name = where.split(".")
    module = modules[MODULES.index(home)]
    function = getattr(module, name)
    text = textwrap.dedent(inspect.getsource(function))
    text = edit(re.sub(r"^@.*\n", "", text, flags=re.MULTILINE), (old, new))
    space = {}
    exec(compile(text, f"<{where}>", "exec", 0, dont_inherit=True), module.__dict__, space)
    mutant = space[name]
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    for one in modules:
        for key, value in list(vars(one).items()):
            if value is function:
                monkeypatch.setattr(one, key, mutant)
            elif isinstance(value, compiled.Entry) and value.interpreted is function:
                monkeypatch.setattr(value, "interpreted", mutant)


def crossed(heard):
    """Node 1, of node 0's group, hears of node 3's too, and node 2 lacks 0:1 alone."""
    many = [(BROADCAST, (0, number)) for number in range(1, 10)]
    others = [(BROADCAST, (3, number)) for number in range(1, 6)]
    rows = [(DELIVER, (3, number)) for number in range(1, heard + 1)]
    late = (1, 1)
    first = [(DELIVER, (0, 1)), *rows, (BROADCAST, late)]
    return Execution([many, first, [*rows, (DELIVER, late)], others], complete=False)


def judge(execution, seed, references=None):
    """Convict the audit of the first of its numbers that the definitions say otherwise."""
    expected = executions.judge(execution)
    runner = Loop(chunk_rows=1 + seed % 9, references=references)
    report = audit(ExecutionRows(execution), ranges=1 + seed % 3, runner=runner)
    for name in COUNTS:
        found = getattr(report, name)
        hold(found == expected[name], name, f"{found}, not {expected[name]}")


def some(count):
    for heard in (1, 2):
        yield crossed(heard), heard, [0, 3]
    for seed in range(count):
        yield anything(seed) if seed % 3 else bridged(seed, seed + 7), seed


def trials(count):
    return (functools.partial(judge, *one) for one in some(count))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(monkeypatch, name):
    mutate(monkeypatch, *MUTANTS[name])
    assert_convicted(name, trials(400), REASONS[name])


def test_the_audit_itself_is_not():
    assert conviction(trials(100)) is None

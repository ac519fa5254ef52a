"""Mistakes that one could make in the audit, each found by the definitions."""

import functools
import importlib

import pytest

from precedes import compiled
from precedes.audit import audit
from precedes.audit.stages import Runner
from tests.audit.test_stages import anything, bridged
from tests.support import edited, executions
from tests.support.audits import ExecutionRows
from tests.support.convictions import Raises, assert_convicted, conviction, hold
from tests.support.executions import BROADCAST, DELIVER, Execution

MODULES = ("order", "pasts", "table", "judge", "stages", "witness", "logs")
# The audit checks its own witnesses.
UNPROVED = Raises(AssertionError, "the kernels and the rows disagree")
# The mistake -> what it is convicted for, the module, and the edit.
MUTANTS = {
    "a prefix one too high": ("violations", "pasts", ("_reach", "int(reach)", "int(reach) + 1")),
    "a prefix at the start of a block speaks of the one before": (
        "violations", "pasts", ("_reach", "reach > order.bounds[block]", "reach >= 0"),
    ),
    "a prefix above its own message": (
        "violations", "pasts",
        (
            "_broadcast(node, position, since, order, frontier)", "lists.prefix[message] = ...",
            "frontier.known[node] = seq; lists.prefix[message] = ...", "seq = registers[_SEQ] + 1",
        ),
    ),
    "known before it is delivered": (
        "violations", "pasts", ("_reach", "order.seq[reach] <= ...", "order.seq[reach] <= 1 + ..."),
    ),
    "own deliveries before the broadcast forgotten": (
        "violations", "pasts",
        ("_broadcast", "registers[_AHEAD] >= seq", "registers[_AHEAD] > seq"),
    ),
    "changes forgotten at every broadcast but the first": (
        "violations", "pasts",
        (
            "find_in_rows", "q > frontier.known[s]",
            "q > frontier.known[s] + (registers[_SEQ] > 0)", "registers = frontier.registers",
        ),
    ),
    "a node begins with what the one before knew": (
        "violations", "pasts", ("reset", "frontier.known[s] = 0", "", "s = frontier.sources[i]"),
    ),
    "phantoms in lists": ("cycles", "stages", ("_all_pasts", "if spoilt: ...", "")),
    "entries at the prefix dropped": (
        "violations", "table", ("_keep_units", "place >= low[...]", "place > low[...]"),
    ),
    "the blocks' prefixes taken together": (
        "violations", "table", ("_raise", "low[block] = ...", "low[:] = ..."),
    ),
    "not verified where a list lies above": (
        UNPROVED, "table", ("prune_lists", "kept[k] >= own", "kept[k] > own + 99"),
    ),
    "counts not cut to what is resolved": (
        UNPROVED, "stages", ("carry_out", "table._replace(...)", "table"),
    ),
    "the predecessor not asked for": (
        "violations", "judge",
        ("_have", "seq == frontier.satisfied[source] + 1", "seq >= frontier.satisfied[source] + 1"),
    ),
    "what waits is not woken": (
        "violations", "table",
        ("_wake", "... <= frontier.satisfied[source]", "... < frontier.satisfied[source]"),
    ),
    "late ones do not settle": (
        UNPROVED, "judge", ("judge_rows", "... or has_bit(frontier.late, message + 1)", "..."),
    ),
    "a frontier that is not emptied": (
        "duplicates", "table", ("clear_frontier", "frontier.satisfied[s] = 0", ""),
    ),
    "prefixes of the node before": (
        "fifo_violations", "table", ("clear_frontier", "frontier.prefix[s] = 0", ""),
    ),
    "late messages are in no prefix": (
        "fifo_violations", "table",
        ("overtakes", "prefix + 1 < seq and ...", "False"),
    ),
    "a join covers one too few": (
        "duplicates", "judge",
        ("_join", "max(frontier.covered[source], seq)", "max(frontier.covered[source], seq - 1)"),
    ),
    "a join excuses own deliveries": (
        "duplicates", "judge",
        ("_join(node, source, seq)", "source == node", "source == node and seq == 0"),
    ),
    "a broadcast counts where an own delivery does": (
        "violations", "judge", ("judge_rows", "facts.own[message] == 0 and ...", "..."),
    ),
    "a message that lists itself is in no cycle": (
        "cycles", "table", ("find_cycles", "cyclic[m] = 1", ""),
    ),
}  # fmt: skip


def mutate(monkeypatch, home, edit):
    """Run the audit interpreted, with one function edited wherever it is used."""
    modules = [importlib.import_module(f"precedes.audit.{name}") for name in MODULES]
    module = modules[MODULES.index(home)]
    mutant = edited.function(module, *edit)
    function = getattr(module, mutant.__name__)
    monkeypatch.setenv("PRECEDES_TIER", "interpreted")
    for one in modules:
        for key, value in list(vars(one).items()):
            if value is function:
                monkeypatch.setattr(one, key, mutant)
            elif isinstance(value, compiled.Entry) and value.interpreted is function:
                monkeypatch.setattr(value, "interpreted", mutant)


def crossed(count):
    """Node 1, of node 0's group, hears of node 3's too, and node 2 lacks 0:1 alone."""
    many = [(BROADCAST, (0, number)) for number in range(1, 10)]
    others = [(BROADCAST, (3, number)) for number in range(1, 6)]
    rows = [(DELIVER, (3, number)) for number in range(1, count + 1)]
    late = (1, 1)
    first = [(DELIVER, (0, 1)), *rows, (BROADCAST, late)]
    return Execution([many, first, [*rows, (DELIVER, late)], others], complete=False)


def judge(execution, seed, references=None):
    """Convict the audit of the first of its numbers that the definitions say otherwise."""
    expected = executions.judge(execution)
    runner = Runner(chunk_rows=1 + seed % 9, references=references)
    report = audit(ExecutionRows(execution), ranges=1 + seed % 3, runner=runner)
    for name in executions.COUNTS:
        found = getattr(report, name)
        hold(found == expected[name], name, f"{found}, not {expected[name]}")


def some(count):
    for others in (1, 2):
        yield crossed(others), others, [0, 3]
    for seed in range(count):
        yield anything(seed) if seed % 3 else bridged(seed, seed + 7), seed


def trials(count):
    return (functools.partial(judge, *one) for one in some(count))


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_found(monkeypatch, name):
    reason, *mutant = MUTANTS[name]
    mutate(monkeypatch, *mutant)
    assert_convicted(name, trials(400), reason)


def test_the_audit_itself_is_not():
    assert conviction(trials(100)) is None

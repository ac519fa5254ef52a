"""Mistakes in `hashed`, printed ones among them, each of which the suite must convict.

Every mutant is `hashed` with one edit, in its own files or in those of `hash_check`. All have
a clock of three entries, which errs all the time; the original passes the same schedules with it.
"""

import functools

import pytest

from precedes import Scenario, simulate
from precedes.testing import check_scenario, random_scenario
from tests.support.convictions import assert_convicted, conviction
from tests.support.edited import protocol
from tests.support.network import Network

# Of the first schedules those in which something goes wrong if it can.
SEEDS = (1, 3, 6, 7, 9, 24, 27)

SMALL = {"entries": 3, "log": 64}
AT_ONCE = {"grace_ms": 0.0, "retry": False}
LITERAL = {"search": "literal"}

# The mistake -> what it is convicted for, other parameters, and the edits.
MUTANTS = {
    "the hash is not looked at": ("order", {}, ("on_app", "error_detector(...)", "False")),
    "what is suspect is neither tested again nor asked about": (
        "lost", {"retry": False}, ("suspect", "host.set_timer(...)", ""),
    ),
    "retries, but nobody is ever asked": (
        "lost", {"hashes": 1}, ("suspect", "host.set_timer(...)", ""),
    ),
    "repeated packets are not recognised": (
        "reference", {}, ("on_app", "sequence <= before", "False"),
    ),
    "a repeated packet that waits is kept forever": (
        "reference", {}, ("on_app", "queue.holds(...)", "False"),
    ),
    "what waits is never looked at again": (
        "lost", {}, ("after_delivery", "queue.releases(...)", "False"),
    ),
    "a message that waits for its clock is not entered": (
        "lost", {}, ("wait_until", "queue.note_waiting(...)", ""),
    ),
    "an answer is empty": (
        "order", AT_ONCE, ("answer", "for back in range(...): name = log.name_at(...); ...", ""),
    ),
    "the dependencies are not awaited": (
        "order", AT_ONCE, ("all_delivered", "not is_delivered(...)", "False"),
    ),
    "an answer is complete with its first part": (
        "order", AT_ONCE, ("_is_complete", "different == announced", "True"),
        ("_is_complete", "announced == NONE or ...", "False"),
    ),
    "the log lets own messages go that not everybody has delivered": (
        "lost", AT_ONCE, ("collect", "sequence_in(name) > stable", "False"),
    ),
    "any set with the right counts is accepted": (
        "order", {}, ("_search", "peel.mark.total[0] == difference", "True"),
    ),
    "half of the hash is compared": (
        "order", {},
        ("_search", "peel.mark.total[0] == difference", "peel.mark.total[0] & 1 == difference & 1"),
    ),
    "the first combination is accepted": (
        "order", LITERAL, ("_leave_out", "work.total[size] == difference", "True"),
    ),
    "half of the hash of a combination is compared": (
        "order", LITERAL,
        ("_leave_out", "work.total[size] == difference", "work.total[size] & 1 == difference & 1"),
    ),
}  # fmt: skip
# Mistakes that the hash makes up for: nothing is out of order, but everything is asked about.
WASTEFUL = {
    "the receiver takes the maximum": (
        {},
        (
            "record(state, here, slot)", "state.clock[here, state.own[source, i]] += 1",
            "x = state.own[source, i]\n"
            "state.clock[here, x] = max(state.clock[here, x], state.need[slot, x] + 1)",
        ),
    ),
    "the message's hash includes itself": (
        {},
        (
            "broadcast", "state.past[slot] = state.hash[here]; ...; record(...)",
            "...; record(...); state.past[slot] = state.hash[here]",
        ),
    ),
    "a clock is kept in the place of another message": (
        LITERAL, ("remember", "log.end.next[here]", "log.end.next[here] + 5"),
    ),
}  # fmt: skip


def write(directory, *edits):
    """The mutant: a copy of `hashed` and of its check by hashes, edited."""
    return protocol(directory, "hashed", *edits, part="hash_check")


def trials(file, settings):
    """The schedules, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        scenario = random_scenario(file, seed).replace(parameters={**SMALL, **settings})
        yield functools.partial(check_scenario, scenario, compiled=False)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    reason, settings, *edits = MUTANTS[mistake]
    assert_convicted(mistake, trials(write(tmp_path, *edits), settings), reason)


@pytest.mark.parametrize("settings", [{}, AT_ONCE, {"hashes": 1}, LITERAL], ids=str)
def test_the_original_passes_the_same_schedules(settings):
    assert conviction(trials("hashed", settings)) is None


@functools.cache
def requests_of(name, **settings):
    """Requests for a delivery in a group whose clock is large enough, with entries in common."""
    parameters = {"entries": 20, "log": 64, **settings}
    scenario = Scenario(protocol=name, nodes=20, messages=20, rate=50.0, parameters=parameters)
    result = simulate(scenario, tier="interpreted")
    assert result.violations.deliveries == 0
    return result.extra["requests"] / result.deliveries


@pytest.mark.parametrize("mistake", WASTEFUL)
def test_wasteful_mutants_are_convicted(tmp_path, mistake):
    settings, *edits = WASTEFUL[mistake]
    assert requests_of(write(tmp_path, *edits), **settings) > 0.2
    assert requests_of("hashed") < 0.01
    assert requests_of("hashed", search="literal") < 0.01


def suspected_of(name):
    """Messages that are suspected in a live group, one of whose members has spoiled its hash."""
    network = Network(name, 3, 1, parameters={"grace_ms": 0})
    for _ in range(30):
        for member in range(3):
            network.broadcast(member)
    network.nodes[1].state.hash[0] ^= 1
    network.settle()
    for member in range(3):
        network.broadcast(member)
    network.settle()
    assert network.lacking() == [], "an answer makes up for the hash"
    return sum(int(node.state.counts.suspected[0]) for node in network.nodes)


ACCEPTED = ("_solve", "return total == difference", "return True")


def test_a_set_that_the_counts_determine_needs_its_hash(tmp_path):
    """A group smaller than its clock finds the set by its counts, and a wrong hash all the same."""
    mutant = write(tmp_path, ACCEPTED)
    assert suspected_of("hashed") > suspected_of(mutant)


ONE_BY_ONE = (
    "ask_for_all(state, here, row, host)",
    "",
    "if state.held.rows.stage[row] < ASKED: ask(state, here, row, host)\nreturn",
)


def test_requests_one_after_the_other_are_convicted(tmp_path):
    """Each message of a burst would wait for an answer of its own; times are simulated."""
    mutant = write(tmp_path, ONE_BY_ONE)
    burst = Scenario(
        protocol=mutant,
        nodes=6,
        messages=120,
        rate=1e6,
        delay="uniform:1:9",
        parameters={"entries": 5, "hashes": 1},
    )
    took = {
        name: simulate(burst.replace(protocol=name), tier="interpreted").simulated_s
        for name in (mutant, "hashed")
    }
    assert took[mutant] > 1.3 * took["hashed"]

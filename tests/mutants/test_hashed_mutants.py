"""Mistakes in `hashed`, printed ones among them, each of which the suite must convict.

Every mutant is `hashed` with one edit, in its own file or in those of its check. All have
a clock of three entries, which errs all the time; the original passes the same schedules with it.
"""

import functools

import pytest

from precedes import Scenario, simulate
from precedes.parts.hash_check import check
from precedes.testing import check_scenario, random_scenario
from tests.support.convictions import assert_convicted, conviction
from tests.support.edited import protocol
from tests.support.network import Network

# Of the first schedules those in which something goes wrong if it can.
SEEDS = (1, 3, 6, 7, 9, 24, 27)

SMALL = (
    'entries: int = field(default=50, metadata={"help": "entries of the clock (M)"})',
    'entries: int = field(default=3, metadata={"help": "entries of the clock (M)"})',
)
SHORT = ('default=1024, metadata={"help": "deliveries', 'default=64, metadata={"help": "deliveries')
AT_ONCE = ("grace_ms: float = field(default=100.0,", "grace_ms: float = field(default=0.0,")
NO_RETRY = ("retry: bool = field(default=True,", "retry: bool = field(default=False,")
LITERAL = ('default="peeling"', 'default="literal"')
ONE_HASH = ("hashes: int = field(default=100,", "hashes: int = field(default=1,")

# The mistake, then what stands in a file and what the mutant has instead, and other settings.
MUTANTS = {
    "the hash is not looked at": (
        ("covered and in_turn and explains(state, here, slot, host)", "covered and in_turn"),
    ),
    "what is suspect is neither tested again nor asked about": (
        ("        set_timer(host, key, state.setting[GRACE_NS])\n", "        pass\n"),
        NO_RETRY,
    ),
    "retries, but nobody is ever asked": (
        ("        set_timer(host, key, state.setting[GRACE_NS])\n", "        pass\n"),
        ONE_HASH,
    ),
    "repeated packets are not recognised": (("    if sequence <= before or ", "    if "),),
    "a repeated packet that waits is kept for ever": (
        (" or queue.holds(state.held, here, source, sequence, host)", ""),
    ),
    "what waits is never looked at again": (
        (
            "queue.BEGIN] != NONE and releases(state, here, source):",
            "queue.BEGIN] != NONE and False:",
        ),
    ),
    "a message that waits for its clock is not entered": (
        (
            "            queue.note_waiting(held, here, row)\n            before",
            "            before",
        ),
    ),
    "an answer is empty": (
        (
            "        for back in range(1, position - before):\n            name",
            "        for back in range(0):\n            name",
        ),
        AT_ONCE,
        NO_RETRY,
    ),
    "the dependencies are not awaited": (
        ("        if not is_delivered(delivered, name):\n            return False\n", ""),
        AT_ONCE,
        NO_RETRY,
    ),
    "an answer is complete with its first part": (
        ("    return different == announced\n", "    return True\n"),
        (
            "    if announced == NONE or rows[row + queue.KNOWN] < announced:\n"
            "        return False\n",
            "",
        ),
        AT_ONCE,
        NO_RETRY,
    ),
    "the log lets own messages go that not everybody has delivered": (
        ("            if sequence_in(name) > stable:\n                return\n", ""),
        AT_ONCE,
        NO_RETRY,
    ),
    "any set with the right counts is accepted": (
        (
            "            if peel.mark[SUM] == difference:\n                return True\n",
            "            return True\n",
        ),
    ),
    "half of the hash is compared": (
        ("peel.mark[SUM] == difference:", "peel.mark[SUM] & 1 == difference & 1:"),
    ),
    "the first combination is accepted": (
        (
            "        if work[size, SUM] == difference:\n            return True\n",
            "        return True\n",
        ),
        LITERAL,
    ),
    "half of the hash of a combination is compared": (
        ("work[size, SUM] == difference:", "work[size, SUM] & 1 == difference & 1:"),
        LITERAL,
    ),
}
HASH = "    state.past[slot] = state.hash[here]\n"
RECORD = "    check.record_delivery(state, here, slot, host)\n"
# Mistakes that the hash makes up for: nothing is out of order, but everything is asked about.
WASTEFUL = {
    "the receiver takes the maximum": (
        (
            "        state.clock[here, state.own[source, i]] += 1\n",
            "        x = state.own[source, i]\n"
            "        state.clock[here, x] = max(state.clock[here, x], state.need[slot, x] + 1)\n",
        ),
    ),
    "the message's hash includes itself": (
        (
            HASH + RECORD,
            RECORD + HASH,
        ),
    ),
    "a clock is kept in the place of another message": (
        ("log.end[here, NEXT] & (NEWEST - 1)]", "(log.end[here, NEXT] + 5) & (NEWEST - 1)]"),
        LITERAL,
    ),
}


def write(directory, *edits):
    """The mutant: a copy of `hashed` and of its check by hashes, edited."""
    return protocol(directory, "hashed", SMALL, SHORT, *edits, part="hash_check")


# What each is convicted for.
REASONS = {
    "the hash is not looked at": "order",
    "what is suspect is neither tested again nor asked about": "lost",
    "retries, but nobody is ever asked": "lost",
    "repeated packets are not recognised": "reference",
    "a repeated packet that waits is kept for ever": "reference",
    "what waits is never looked at again": "lost",
    "a message that waits for its clock is not entered": "lost",
    "an answer is empty": "order",
    "the dependencies are not awaited": "order",
    "an answer is complete with its first part": "order",
    "the log lets own messages go that not everybody has delivered": "lost",
    "any set with the right counts is accepted": "order",
    "half of the hash is compared": "order",
    "the first combination is accepted": "order",
    "half of the hash of a combination is compared": "order",
}


def trials(file):
    """The schedules, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        scenario = random_scenario(file, seed)
        yield functools.partial(check_scenario, scenario, compiled=False)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_mutants_are_convicted(tmp_path, mistake):
    mutant = write(tmp_path, *MUTANTS[mistake])
    assert_convicted(mistake, trials(mutant), REASONS[mistake])


@pytest.mark.parametrize("settings", [(), (AT_ONCE, NO_RETRY), (ONE_HASH,), (LITERAL,)], ids=str)
def test_the_original_passes_the_same_schedules(tmp_path, settings):
    assert conviction(trials(write(tmp_path, *settings))) is None


@functools.cache
def requests_of(name, **settings):
    """Requests for a delivery in a group whose clock is large enough, with entries in common."""
    given = {"entries": 20, **settings}
    scenario = Scenario(protocol=name, nodes=20, messages=20, rate=50.0, parameters=given)
    result = simulate(scenario, tier="interpreted")
    assert result.violations.deliveries == 0
    return result.extra["requests"] / result.deliveries


@pytest.mark.parametrize("mistake", WASTEFUL)
def test_wasteful_mutants_are_convicted(tmp_path, mistake):
    assert requests_of(write(tmp_path, *WASTEFUL[mistake])) > 0.2
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
    return sum(int(node.state.counted[check.SUSPECTED]) for node in network.nodes)


def test_a_set_that_the_counts_determine_needs_its_hash(tmp_path):
    """A group smaller than its clock finds the set by its counts, and a wrong hash all the same."""
    accepted = (
        "    peel.mark[HASHES] += 1\n    return total == difference\n",
        "    peel.mark[HASHES] += 1\n    return True\n",
    )
    mutant = protocol(tmp_path, "hashed", accepted, part="hash_check")
    assert suspected_of("hashed") > suspected_of(mutant)


def test_requests_one_after_the_other_are_convicted(tmp_path):
    """Each message of a burst would wait for an answer of its own; times are simulated."""
    one_by_one = ("if source_of(host, rows[row + queue.SLOT]) == source and", "if row == asked and")
    asked = (
        "    source = source_of(host, rows[row + queue.SLOT])\n    row = ",
        "    asked = row\n    row = ",
    )
    mutant = protocol(tmp_path, "hashed", asked, one_by_one, part="hash_check")
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

"""The published search, compared with its definition by sets, and with the search by peeling."""

import itertools
import random

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from precedes.parts.hash_check import log, search, set_hash
from precedes.protocols.hashed import enumeration

KEY = set_hash.allocate(seed=7, slots=1).key
NODES = 5


def hashed(name):
    return int(set_hash.encipher(KEY, *name))


class Message:
    """A message, all that its sender had delivered, and the clocks before it and with it."""

    def __init__(self, history, name, past):
        self.name, self.past = name, frozenset(past)
        self.need, self.stamp = history.counts(past), history.counts([*past, name])


class History:
    """A random execution in causal order, by sets alone; ``tests`` are its deliveries.

    Of each: the node, what it had delivered in its order, and the message.
    """

    def __init__(self, seed):
        draw = random.Random(seed)
        self.entries = draw.choice((2, 3, 6, 12))
        per_process = draw.choice([k for k in (1, 2) if k <= self.entries])
        self.own = np.array(
            [sorted(draw.sample(range(self.entries), per_process)) for _ in range(NODES)], np.int32
        )
        self.messages = {}
        self.tests = []
        delivered = [[] for _ in range(NODES)]
        for _ in range(draw.randint(5, 60)):
            node = draw.randrange(NODES)
            ready = [
                m
                for m in self.messages.values()
                if m.name not in delivered[node] and m.past <= set(delivered[node])
            ]
            if ready and draw.random() < 0.75:
                message = draw.choice(ready)
                self.tests.append((node, tuple(delivered[node]), message))
            else:
                sequence = 1 + sum(source == node for source, _ in delivered[node])
                message = Message(self, (node, sequence), delivered[node])
                self.messages[message.name] = message
            delivered[node].append(message.name)

    def counts(self, names):
        """A clock: how many of these messages hit each entry."""
        found = np.zeros(self.entries, np.int32)
        for source, _ in names:
            found[self.own[source]] += 1
        return found

    def log_of(self, delivered):
        """A node's log and the clocks that it kept."""
        kept = log.allocate(processes=1, nodes=NODES, length=64, key=KEY)
        tried = enumeration.allocate(processes=1, width=self.entries, is_used=True)
        for name in delivered:
            need = self.messages[name].need
            enumeration.remember(tried, kept, self.own, 0, name[0], need)
            log.append(kept, 0, set_hash.packed(*name), hashed(name), 0)
        return kept, tried

    def find(self, node, delivered, message, limit):
        """Results of both searches: found, the oldest own message left out, hashes compared."""
        kept, tried = self.log_of(delivered)
        total = sum(map(hashed, delivered)) - sum(map(hashed, message.past))
        difference = total % 2**62
        literal = enumeration.find(tried, kept, 0, message.need, node, difference, limit)
        mark = tried.mark
        first = literal, int(mark.oldest_own[0]), int(mark.hashes[0])
        self.concurrent = int(mark.concurrent[0]), int(mark.unshown[0])
        peel = search.allocate(width=self.entries, nodes=NODES, per_process=self.own.shape[1])
        clock = self.counts(delivered)
        if (clock < message.need).any():
            return first, None  # it is not asked before the clock has reached the message
        peeled = search.find(
            peel,
            kept,
            self.own,
            0,
            clock,
            message.need,
            node,
            message.name[0],
            np.bincount([source for source, _ in delivered], minlength=NODES).astype(np.int32),
            difference,
            limit,
        )
        mark = peel.mark
        return first, (peeled, int(mark.oldest_own[0]), int(mark.hashes[0]))

    def tries(self, delivered, message):
        """The sets that Algorithm 3 tries, in turn: all that may precede, less more and more."""
        newest = delivered[::-1][: enumeration.NEWEST]
        may = [n for n in newest if (self.messages[n].stamp <= message.need).all()]
        older = set(delivered) - set(newest)
        for size in range(len(may) + 1):
            for less in itertools.combinations(may, size):
                yield older | (set(may) - set(less))


@given(st.integers(0, 2**32), st.sampled_from((1, 2, 7, 100)))
def test_a_set_is_found_when_its_turn_comes_within_the_limit(seed, limit):
    """And then the other search finds the same, if it finds any."""
    history = History(seed)
    for node, delivered, message in history.tests:
        first = itertools.islice(history.tries(delivered, message), limit)
        turn = next((n for n, names in enumerate(first, 1) if names == message.past), None)
        literal, peeled = history.find(node, delivered, message, limit)
        found, oldest, hashes = literal
        assert found == (turn is not None), (seed, node, message.name)
        if found:
            lacked = [i for s, i in set(delivered) - message.past if s == node]
            assert (oldest, hashes) == (min(lacked, default=0), turn)
            all_lacked = set(delivered) - message.past
            unshown = [n for n in all_lacked if (history.messages[n].stamp <= message.need).all()]
            assert history.concurrent == (len(all_lacked), len(unshown))
        else:
            assert hashes <= limit
        if found and peeled[0]:
            assert peeled[1] == oldest


def test_without_a_limit_it_finds_whatever_peeling_finds():
    """Over many histories, some of which peeling gives up on."""
    both = alone = 0
    for seed in range(60):
        history = History(seed)
        for node, delivered, message in history.tests:
            literal, peeled = history.find(node, delivered, message, limit=2**16)
            assert literal[0], (seed, node, message.name)
            both += peeled[0]
            alone += not peeled[0]
    print(f"{both} found by both, {alone} by enumeration alone")
    assert both > 500


@given(st.integers(0, 2**32))
def test_a_missing_message_is_never_explained_away(seed):
    """The planted twin: a node that lacks one of a message's past finds no set."""
    history = History(seed)
    for node, delivered, message in history.tests:
        for missing in sorted(message.past)[-3:]:
            less = tuple(name for name in delivered if name != missing)
            literal, peeled = history.find(node, less, message, limit=500)
            assert not literal[0], (seed, node, message.name, missing)
            assert peeled is None or not peeled[0]


def test_more_than_is_kept_is_taken_for_dependencies():
    """The bound on deliveries: what a sender lacks is found among the newest, not before them."""
    history = History(1)
    names = [(0, i) for i in range(1, enumeration.NEWEST + 10)]
    for i, name in enumerate(names):
        history.messages[name] = Message(history, name, names[:i])
    among = Message(history, (1, 1), names[:-3])
    before = Message(history, (1, 1), names[:5])
    assert history.find(2, tuple(names), among, limit=9)[0] == (True, 0, 1)
    assert not history.find(2, tuple(names), before, limit=2**10)[0][0]

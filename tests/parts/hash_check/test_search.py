"""The search for what a sender lacked, against trying out all sets."""

import itertools
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from precedes.parts import clocks
from precedes.parts.hash_check import log, search, set_hash

KEY = set_hash.allocate(seed=7, slots=1).key
NODE, SENDER, NODES = 0, 1, 6


def hashed(name):
    return int(set_hash.encipher(KEY, *name))


class Case:
    """Deliveries of node 0, the entries of all, and a set R of them that a sender lacks."""

    def __init__(self, seed):
        draw = random.Random(seed)
        entries = draw.choice((2, 4, 6, 12))
        per_process = draw.choice([k for k in (1, 2, 3) if k <= entries])
        self.own = np.array(
            [sorted(draw.sample(range(entries), per_process)) for _ in range(NODES)], np.int32
        )
        sources = [draw.randrange(NODES) for _ in range(draw.randint(1, 12))]
        self.names = [(s, sources[: i + 1].count(s)) for i, s in enumerate(sources)]
        # A sender that lacks a message lacks the later ones of the same source.
        known = [draw.randint(0, sources.count(s)) for s in range(NODES)]
        self.lacked = [(s, i) for s, i in self.names if s != SENDER and i > known[s]]
        self.log = log.allocate(processes=1, nodes=NODES, length=64, key=KEY)
        for name in self.names:
            log.append(self.log, 0, set_hash.packed(*name), hashed(name), 0)
        self.delivered = np.bincount(sources, minlength=NODES).astype(np.int32)
        self.entries = entries
        self.excess = self.hits(self.lacked)

    def hits(self, names):
        found = np.zeros(self.entries, np.int32)
        for source, _ in names:
            found[self.own[source]] += 1
        return found

    def find(self, excess, difference, limit=100):
        """The result of ``search.find``, and the oldest own message that it found."""
        peel = search.allocate(width=self.entries, nodes=NODES, per_process=self.own.shape[1])
        need = np.zeros(self.entries, np.int32)
        before = np.array(self.log.end)
        found = search.find(
            peel,
            self.log,
            self.own,
            0,
            excess,
            need,
            NODE,
            SENDER,
            self.delivered,
            difference,
            limit,
        )
        assert not peel.hits.any(), "counts were left behind"
        assert not peel.rest.any(), "counts were left behind"
        assert np.array_equal(self.log.end, before)
        return found, int(peel.mark.oldest_own[0]), int(peel.mark.hashes[0])

    def brute_force(self, excess, difference):
        """All sets of deliveries with these hits and this hash."""
        others = [name for name in self.names if name[0] != SENDER]
        for size in range(len(others) + 1):
            for names in itertools.combinations(others, size):
                total = sum(map(hashed, names)) % 2**62
                if total == difference and np.array_equal(self.hits(names), excess):
                    yield set(names)


@given(st.integers(0, 2**32))
def test_what_was_lacked_is_found(seed):
    """Bounds aside, the search finds R exactly when a search of all sets does."""
    case = Case(seed)
    difference = sum(map(hashed, case.lacked)) % 2**62
    assert list(case.brute_force(case.excess, difference)) == [set(case.lacked)]
    found, oldest, hashes = case.find(case.excess, difference)
    if not found:
        assert hashes >= search.STAGE_HASHES or crowded(case), "it gave up before any bound"
        return
    mine = [sequence for source, sequence in case.lacked if source == NODE]
    assert oldest == min(mine, default=0)


def crowded(case):
    """Return whether the entries leave enough choices to reach the bound on trials."""
    return len(case.names) > 2 * len(case.own) or case.entries <= 4


def test_nearly_all_are_found_with_one_hash_each():
    """Over many cases whose clock is not absurdly small."""
    found = hashes = count = 0
    for seed in range(400):
        case = Case(seed)
        if case.entries == 12:
            one, _, tried = case.find(case.excess, sum(map(hashed, case.lacked)) % 2**62)
            count, found, hashes = count + 1, found + one, hashes + tried
    print(f"{count} cases, {found} found with {hashes} hashes")
    assert found == count
    assert hashes < 2 * count


@given(st.integers(0, 2**32), st.integers(1, 2**62 - 1))
def test_a_wrong_hash_is_never_accepted(seed, error):
    case = Case(seed)
    difference = (sum(map(hashed, case.lacked)) + error) % 2**62
    assert not list(case.brute_force(case.excess, difference))
    assert not case.find(case.excess, difference)[0]


@given(st.integers(0, 2**32), st.integers(0, NODES - 1))
def test_a_missing_message_is_never_explained_away(seed, source):
    """The sender has delivered one more, which hits entries that others cover."""
    case = Case(seed)
    missing = (source, 99)
    excess = case.excess - case.hits([missing])
    if (excess < 0).any():
        return  # the clock itself shows that something is missing
    difference = (sum(map(hashed, case.lacked)) - hashed(missing)) % 2**62
    assert not case.find(excess, difference)[0]


@given(st.integers(0, 2**32), st.integers(1, 5))
def test_the_limit_is_kept(seed, limit):
    case = Case(seed)
    found, _, hashes = case.find(case.excess, 1, limit=limit)
    assert not found
    assert hashes <= limit


class LargeCase:
    """Deliveries by the thousand in a group that is smaller than its clock; parts change."""

    def __init__(self, seed, *, parts=1):
        draw = random.Random(seed)
        per_process, entries = draw.choice([(1, 6), (2, 7), (2, 9), (3, 20)])
        self.own = clocks.entries_apart(
            entries=entries, per_process=per_process, nodes=NODES, seed=seed
        )
        self.part_entries = entries if parts > 1 else 0
        self.excess = np.zeros(parts * entries, np.int32)
        self.log = log.allocate(processes=1, nodes=NODES, length=64, key=KEY, tells_apart=True)
        self.delivered = np.zeros(NODES, np.int32)
        lacked = [draw.choice((0, 1, draw.randrange(2, 2500))) for _ in range(NODES)]
        lacked[SENDER] = 0
        self.oldest_own = 2500 - lacked[NODE] + 1 if lacked[NODE] else 0
        self.difference = 0
        for source in draw.sample(range(NODES), NODES):
            part = draw.randrange(parts)
            for sequence in range(1, 2501):
                if parts > 1 and draw.random() < 0.001:
                    part = draw.randrange(parts)
                one = hashed((source, sequence))
                log.append(self.log, 0, set_hash.packed(source, sequence), one, part)
                if sequence > 2500 - lacked[source]:
                    self.excess[self.own[source] + part * entries] += 1
                    self.difference = set_hash.plus(self.difference, one)
            self.delivered[source] = 2500

    def find(self, *, error=0):
        peel = search.allocate(
            width=self.excess.size,
            nodes=NODES,
            per_process=self.own.shape[1],
            part_entries=self.part_entries,
            per_part=self.own.shape[1],
        )
        difference = set_hash.plus(self.difference, error)
        need = np.zeros_like(self.excess)
        return (
            search.find(
                peel, self.log, self.own, 0, self.excess, need, NODE, SENDER, self.delivered,
                difference, 100,
            ),
            int(peel.mark.oldest_own[0]),
        )  # fmt: skip


@pytest.mark.parametrize("parts", [1, 3])
@pytest.mark.parametrize("seed", range(1, 4))
def test_any_number_of_messages_is_found_if_the_clock_is_larger_than_the_group(seed, parts):
    """Sums are taken from both rings, and across changes of the parts that a source hits."""
    case = LargeCase(seed, parts=parts)
    assert case.excess.sum() > log.WINDOW
    assert case.find() == (True, case.oldest_own)


@pytest.mark.parametrize("parts", [1, 3])
def test_a_wrong_hash_of_many_messages_is_not_accepted(parts):
    assert not LargeCase(1, parts=parts).find(error=1)[0]


def test_the_cipher_is_speck():
    """The test vector of Speck 64/128 that its authors publish."""
    key = set_hash.round_keys([0x03020100, 0x0B0A0908, 0x13121110, 0x1B1A1918])
    assert set_hash.encipher(key, 0x3B726574, 0x7475432D) == 0x8C6FA548454E028B % 2**62


def test_groups_have_keys_of_their_own():
    first, second = (set_hash.allocate(seed=seed, slots=1).key for seed in (1, 2))
    assert not np.array_equal(first, second)
    assert np.array_equal(first, set_hash.allocate(seed=1, slots=9).key)

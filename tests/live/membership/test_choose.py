"""The choice of the next view, as a property of random promises."""

import random

import pytest

from precedes.live.membership.choose import choose, fit
from precedes.live.membership.records import Promise
from precedes.live.membership.values import (
    Ballot,
    Entry,
    View,
    check_successor,
    check_view,
    is_quorum,
)

CASES, PARTS = 1000, 10


def life(number):
    """A life of a number."""
    return number.to_bytes(16, "big")


def drawn(rng):
    """A view, and promises of a quorum of it: suspicions, leavers, joiners, learners, restarts."""
    n = rng.randint(1, 6)
    uids = sorted(rng.sample(range(1, 12), n))
    entries = [Entry(uid, f"m{uid}", life(uid)) for uid in uids]
    rng.shuffle(entries)
    voters = frozenset(rng.sample(uids, rng.randint(1, n)))
    view = View(
        group=life(99), epoch=4, entries=tuple(entries), voters=voters, next_uid=12,
        ballot=Ballot(3, uids[0]), bases={uid: rng.randint(0, 9) for uid in uids},
        settings=b"settings", more=b"\xc8\x01\x00\x00\x00x",
    )  # fmt: skip
    # One order of all messages; members have delivered prefixes of it.
    order, counts = [], [0] * n
    for _ in range(rng.randint(0, 12)):
        at = rng.randrange(n)
        counts[at] += 1
        order.append((at, counts[at]))
    ends = {uid: rng.randint(0, len(order)) for uid in uids}
    below = rng.randint(0, min(ends.values()))
    promised = set(uids)
    while rng.random() < 0.5 and len(promised) > 1:
        fewer = promised - {rng.choice(sorted(promised))}
        promised = fewer if is_quorum(voters, frozenset(fewer)) else promised
    joiners = [
        Entry(0, rng.choice(["m1", "m2", "x", "y"]), life(50 + i)) for i in range(rng.randint(0, 3))
    ]

    def vector(end):
        return tuple(max([s for p, s in order[:end] if p == at], default=0) for at in range(n))

    promises = {
        uid: Promise(
            epoch=4, ballot=Ballot(5, uid), uid=uid, accepted_ballot=Ballot(0, 0), accepted=None,
            delivered=vector(ends[uid]), stable=vector(below),
            unstable=tuple(order[below : ends[uid]]),
            suspects=frozenset(u for u in uids if u != uid and rng.random() < 0.15),
            leaving=rng.random() < 0.15,
            restored=uid in voters or rng.random() < 0.5,
            recovering=life(30 + uid) if rng.random() < 0.1 else b"",
            joiners=tuple(e for e in joiners if rng.random() < 0.5),
        )
        for uid in promised
    }  # fmt: skip
    return view, promises, order


@pytest.mark.parametrize("part", range(PARTS))
def test_the_next_view(part):
    for seed in range(part, CASES, PARTS):
        check(*drawn(random.Random(f"choose {seed}")))


def check(view, promises, order):
    """Everything that the next view has to be."""
    following = choose(view, Ballot(5, min(promises)), promises)
    check_view(following)
    check_successor(view, following)
    assert choose(view, Ballot(5, min(promises)), dict(reversed(promises.items()))) == following
    assert (following.settings, following.more) == (view.settings, view.more)

    staying, left = set(following.successors), following.left
    assert staying | left <= promises.keys()
    assert not staying & left
    # No two that stay suspect each other, unless one has the only state; nobody else is removed
    # without a reason.
    able = {uid for uid in staying if uid in view.voters or promises[uid].restored}
    last = able if len(able) == 1 else set()
    for uid in staying - last:
        assert not promises[uid].suspects & staying - {uid} - last
    names = {entry.name for entry in following.entries}
    suspected = set().union(*(p.suspects for p in promises.values()))
    for uid in promises.keys() - staying - left:
        assert uid in suspected or view.entry(uid).name in names
    assert all(promises[uid].leaving for uid in left)
    # Voters have the state; the most senior of those that could go on keeps it.
    assert following.voters == {following.successors[uid] for uid in able}
    # The epoch ends with everything that a kept member has delivered, each message once, in order.
    kept = staying | left
    assert following.cut == tuple(
        map(max, zip(*(promises[u].delivered for u in kept), strict=True))
    )
    assert list(following.flush) == [m for m in order if m in set(following.flush)]
    stable = next(iter(promises.values())).stable
    assert len(following.flush) == sum(following.cut) - sum(stable)
    # Counts go on for a uid, and begin again under a new one.
    for uid, at in view.position.items():
        count = view.bases[uid] + following.cut[at]
        assert {**following.ended, **following.bases}[uid] == count
        if uid in staying:
            recovers = bool(promises[uid].recovering)
            assert (following.successors[uid] != uid) == recovers
            assert not recovers or following.entry(following.successors[uid]).life == life(30 + uid)
    # Members keep their positions where these exist.
    for uid in staying & following.uids:
        if view.position[uid] < len(following.entries):
            assert following.position[uid] == view.position[uid]
    # Of two joiners with one name the larger life is admitted.
    offered = [e for p in promises.values() for e in p.joiners]
    for entry in following.entries:
        same = [e.life for e in offered if e.name == entry.name]
        assert entry.uid in {*staying, *following.successors.values()} or entry.life == max(same)


def test_joiners_that_do_not_fit_wait():
    """Those that take the name of a member come first: it makes room for them."""
    view, _, _ = drawn(random.Random(1))
    taken = view.entries[0].name
    joiners = {name: Entry(0, name, life(90)) for name in ("a", "b", taken)}
    fit(view, joiners, 2)
    assert set(joiners) == {"a", taken}
    fit(view, joiners, 0)
    assert joiners == {}

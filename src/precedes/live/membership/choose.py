"""Choice of the next view from what a quorum has promised (R4). A pure function."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from precedes.live.membership.records import Promise
from precedes.live.membership.values import MEMBERS_MAX, Ballot, Entry, Id, View

Promises = Mapping[int, Promise]  # by uid


def choose(view: View, ballot: Ballot, promises: Promises) -> View:
    """Return a new value: who continues, leaves, joins and votes, and where the epoch ends."""
    joiners = _joiners(view, promises)
    leavers = {uid for uid, promise in promises.items() if promise.leaving}
    staying = {
        uid for uid in promises if uid not in leavers and view.entry(uid).name not in joiners
    }
    resolve_complaints(view, promises, staying)
    able = {uid for uid in promises if uid in view.voters or promises[uid].restored}
    if not staying & able:  # a member has to keep the state
        last = min(able & leavers or able)
        staying.add(last)
        leavers.discard(last)
        joiners.pop(view.entry(last).name, None)
    fit(view, joiners, MEMBERS_MAX - len(staying))
    cut, flush = end_of_epoch(promises[uid] for uid in sorted(staying | leavers))
    counts = {uid: view.bases[uid] + cut[at] for uid, at in view.position.items()}

    next_uid = view.next_uid
    old: dict[int, Entry] = {}
    new: list[Entry] = []
    bases: dict[int, int] = {}
    successors: dict[int, int] = {}
    for uid in sorted(staying):
        entry, successor = view.entry(uid), uid
        if life := promises[uid].recovering:
            # It may have lost the end of its own messages: their numbers are not used again.
            entry, successor = entry._replace(life=life), next_uid
            next_uid += 1
        old[view.position[uid]] = entry._replace(uid=successor)
        bases[successor] = counts[uid] if successor == uid else 0
        successors[uid] = successor
    for name in sorted(joiners):
        new.append(joiners[name]._replace(uid=next_uid))
        bases[next_uid] = 0
        next_uid += 1
    return View(
        group=view.group,
        epoch=view.epoch + 1,
        entries=place(old, new),
        voters=frozenset(successors[uid] for uid in staying & able),
        next_uid=next_uid,
        ballot=ballot,
        settings=view.settings,
        cut=cut,
        flush=flush,
        left=frozenset(leavers),
        bases=bases,
        ended={uid: count for uid, count in counts.items() if uid not in bases},
        successors=successors,
        more=view.more,
    )


def _joiners(view: View, promises: Promises) -> dict[str, Entry]:
    """Joiners by name; of two processes with one name the larger life."""
    known = {promise.recovering for promise in promises.values()} | view.uid_of.keys()
    joiners: dict[str, Entry] = {}
    for promise in promises.values():
        for entry in promise.joiners:
            other = joiners.get(entry.name)
            if entry.life not in known and (other is None or entry.life > other.life):
                joiners[entry.name] = entry
    return joiners


def fit(view: View, joiners: dict[str, Entry], room: int) -> None:
    """Keep at most ``room`` joiners, those with the name of a member first: it goes for them."""
    names = {entry.name for entry in view.entries}
    for name in sorted(joiners, key=lambda name: (name not in names, name))[room:]:
        del joiners[name]


def resolve_complaints(view: View, promises: Promises, staying: set[int]) -> None:
    """Remove members until no two that stay suspect each other.

    The one in most pairs goes first; of equals a learner, then the youngest.
    """
    while True:
        suspected = Counter(x for u in staying for x in promises[u].suspects & staying if x != u)
        if not suspected:
            return
        staying.discard(
            max(suspected, key=lambda uid: (suspected[uid], uid not in view.voters, uid))
        )


def end_of_epoch(kept: Iterable[Promise]) -> tuple[tuple[int, ...], tuple[Id, ...]]:
    """Cut and flush: everything that a kept member has delivered, in a causal order."""
    promises = list(kept)
    delivered = zip(*(promise.delivered for promise in promises), strict=True)
    cut = tuple(max(column) for column in delivered)
    stable = [max(column) for column in zip(*(p.stable for p in promises), strict=True)]
    # Each member's own order is closed under causes, so their concatenation is causal.
    ids = dict.fromkeys(name for promise in promises for name in promise.unstable)
    return cut, tuple(name for name in ids if name[1] > stable[name[0]])


def place(old: Mapping[int, Entry], new: Iterable[Entry]) -> tuple[Entry, ...]:
    """Entries by position: members keep theirs if it exists, others fill the gaps."""
    joining = list(new)
    total = len(old) + len(joining)
    rest = [old[at] for at in sorted(old, reverse=True) if at >= total] + joining
    return tuple(old[at] if at in old else rest.pop(0) for at in range(total))

"""Mistakes in group membership: functions of the product that are patched, and what convicts each.

A mutant names a written schedule, or the profile and seed of a random one that a search has found,
and the words of its conviction. ``find`` searches for such a seed again.
"""

import contextlib
import dataclasses
import re
from collections.abc import Callable
from typing import NamedTuple
from unittest import mock

from precedes.live.membership import agreement, choose, joining
from precedes.live.membership.agreement import Agreement
from precedes.live.membership.founding import Founding
from precedes.live.membership.learning import Learning
from precedes.live.membership.machine import Data, Membership, Reason, Role
from precedes.live.membership.records import Accepted, Confirm, Decided, Invite
from precedes.live.membership.values import is_quorum
from tests.support.membership import founding
from tests.support.membership.host import Host
from tests.support.membership.schedules import SCHEDULES
from tests.support.membership.stage import judge
from tests.support.membership.world import PROFILES, Product, run_schedule


class Mutant(NamedTuple):
    """A patch, and the test that detects it with the reason."""

    where: str  # a written schedule, or "PROFILE SEED"
    reason: str  # a regular expression for "VERDICT: REASON"
    patch: tuple  # owner, attribute, replacement


MUTANTS: dict[str, Mutant] = {}


def mutant(where: str, reason: str, owner: object, name: str) -> Callable:
    """Register the decorated function as what replaces ``owner.name``, be it a property."""

    def keep(function):
        is_property = isinstance(getattr(owner, name), property)
        patch = owner, name, property(function) if is_property else function
        MUTANTS[function.__name__] = Mutant(where, reason, patch)
        return function

    return keep


@contextlib.contextmanager
def applied(name: str):
    """The product with this mistake."""
    with mock.patch.object(*MUTANTS[name].patch):
        yield


def verdict_of(where: str) -> str:
    """Verdict and reason of a schedule, with a colon between."""
    if where in SCHEDULES:
        verdict, reason = judge(SCHEDULES[where])
    elif where in founding.WRITTEN:
        verdict, reason = founding.judge(founding.WRITTEN[where])
    else:
        profile, seed = where.split()
        if profile == "founding":
            verdict, reason, _ = founding.run_schedule(int(seed))
        else:
            verdict, reason, _ = run_schedule(int(seed), Product, profile)
    return f"{verdict}: {reason}"


def find(name: str, schedules: int) -> tuple[str, str] | None:
    """The first random schedule that convicts a mutant for its reason."""
    profiles = ["founding"] if MUTANTS[name].where.startswith("founding") else PROFILES
    for seed in range(1, schedules + 1):
        for where in (f"{profile} {seed}" for profile in profiles):
            with applied(name):
                try:
                    verdict = verdict_of(where)
                except Exception as error:  # it may break the adapter, which proves nothing
                    verdict = repr(error)
            if re.search(MUTANTS[name].reason, verdict) and verdict_of(where) == "held: ":
                return where, verdict
    return None


# Agreement ----------------------------------------------------------------------------------------

TWO_VIEWS = "violated: two views decided"
BEYOND = "violated: .* has delivered beyond the cut"


@mutant("D1", TWO_VIEWS, Agreement, "value_of")
def lowest_accepted(self, ballot, promises):
    accepted = [(p.accepted_ballot, p.accepted) for p in promises.values() if p.accepted]
    if accepted:
        return min(accepted, key=lambda pair: pair[0])[1]
    return choose.choose(self.view, ballot, promises)


@mutant("D1", TWO_VIEWS, Agreement, "value_of")
def accepted_ignored(self, ballot, promises):
    return choose.choose(self.view, ballot, promises)


@mutant("five 2", "violated: virtual synchrony", Agreement, "value_of")
def recut(self, ballot, promises, value_of=Agreement.value_of):
    view = value_of(self, ballot, promises)
    cut, flush = choose.end_of_epoch(promises.values())
    return dataclasses.replace(view, ballot=ballot, cut=cut, flush=flush)


@mutant("D2", TWO_VIEWS, Agreement, "on_accept")
def old_ballot_accepted(self, life, record):
    if not self.is_outdated(record.ballot):
        self._promise(record.ballot)
    self.pending, self._pending_life = record, life
    self.try_accept()


@mutant("D5", "stuck", Agreement, "try_accept")
def accept_without_bodies(self, *, again=False):
    if self.pending is not None and self.report is not None:
        record, self.pending = self.pending, None
        self.accepted = record.ballot, record.view
        self.send(self._pending_life, Accepted(self.view.epoch, record.ballot, self.uid))


@mutant("D9", TWO_VIEWS, Agreement, "drop_pending")
def pending_survives(self, ballot):
    pass


@mutant("J1", "violated: a, b and c are a quorum of five", Agreement, "is_accepted")
def no_joint(self, view, accepted):
    return self.is_old_quorum(accepted)


@mutant("one_way 8", TWO_VIEWS, Agreement, "is_accepted")
def quorum_of_next(self, view, accepted):
    continuing = frozenset(view.successors[u] for u in accepted if u in view.successors)
    return is_quorum(view.voters, continuing)


@mutant("mixed 4", TWO_VIEWS, Agreement, "is_old_quorum")
def half_is_enough(self, present):
    return 2 * len(self.view.voters & set(present)) >= len(self.view.voters)


@mutant("mixed 4", TWO_VIEWS, Agreement, "is_old_quorum")
def quorum_of_unsuspected(self, present):
    trusted = self.view.voters - self.suspects
    return bool(trusted) and is_quorum(trusted, frozenset(present))


@mutant("joins 40", "blocked", Agreement, "is_old_quorum")
def strict_majority(self, present):
    return 2 * len(self.view.voters & set(present)) > len(self.view.voters)


@mutant("five 5", TWO_VIEWS, Agreement, "propose")
def decided_by_promises(self, propose=Agreement.propose):
    propose(self)
    self.announce(self.attempt.view)


@mutant("one_way 1", TWO_VIEWS, Agreement, "on_accept")
def installed_when_accepted(self, life, record, on_accept=Agreement.on_accept):
    on_accept(self, life, record)
    self.send(self.view.entry(self.uid).life, Decided(self.view.epoch, record.view))


@mutant("one_way 1", "violated: duplicate", Agreement, "freeze")
def node_not_frozen(self):
    if self.report is None:
        self._freeze()


# Choice -------------------------------------------------------------------------------------------


@mutant("D12", "violated: b and c stay in one view", choose, "resolve_complaints")
def complaints_ignored(view, promises, staying):
    pass


@mutant("one_way 1", BEYOND, choose, "end_of_epoch")
def cut_of_one_member(kept, end_of_epoch=choose.end_of_epoch):
    return end_of_epoch(list(kept)[:1])


@mutant("five 2", "violated: causal order", choose, "end_of_epoch")
def flush_by_name(kept, end_of_epoch=choose.end_of_epoch):
    cut, flush = end_of_epoch(kept)
    return cut, tuple(sorted(flush))


@mutant("five 14", BEYOND, choose, "end_of_epoch")
def leaver_not_kept(kept, end_of_epoch=choose.end_of_epoch):
    promises = list(kept)
    return end_of_epoch([p for p in promises if not p.leaving] or promises)


@mutant("joins 1", BEYOND, agreement, "choose")
def non_promisers_kept(view, ballot, promises, choose=choose.choose):
    first = min(promises)
    missing = {u: promises[first]._replace(uid=u, leaving=False) for u in view.uids - set(promises)}
    return choose(view, ballot, {**missing, **promises})


@mutant("five 1", "violated: virtual synchrony", agreement, "choose")
def base_not_carried(view, ballot, promises, choose=choose.choose):
    made = choose(view, ballot, promises)
    return dataclasses.replace(made, bases=dict.fromkeys(made.bases, 0))


# Epochs -------------------------------------------------------------------------------------------


@mutant("D3", "violated: stable in epoch 2, lost in epoch 3", Membership, "is_current")
def old_ack_counted(self, life, record, is_current=Membership.is_current):
    if isinstance(record, Data) and record.body[0] == "ACK" and 0 < record.epoch < self.epoch:
        return self.role is Role.MEMBER
    return is_current(self, life, record)


@mutant("D3b", "violated: duplicate", Membership, "is_current")
def old_epoch_accepted(self, life, record, is_current=Membership.is_current):
    if isinstance(record, Data) and record.body[0] == "DATA" and 0 < record.epoch < self.epoch:
        return len(record.body[2][2]) == len(self.view.entries) and self.role is Role.MEMBER
    return is_current(self, life, record)


@mutant("D4", r"violated: \w is excluded in a calm group", Membership, "keep_early")
def early_dropped(self, life, record, keep_early=Membership.keep_early):
    if self.role is Role.JOINER:
        keep_early(self, life, record)


@mutant("D10", "violated: c is excluded in a calm group", Membership, "keep_previous")
def previous_dropped(self, epoch, bodies):
    pass


@mutant("D11", "violated: b leaves without what it was to deliver", Membership, "_concerned")
def leavers_not_awaited(self, view):
    return view.uids


@mutant("D13b", "violated: a never leaves", Membership, "is_last")
def last_cannot_leave(self):
    return False


@mutant("J2", "violated: b cannot go on", Membership, "has_all_installed")
def leaver_gone_at_once(self):
    return self.role is Role.LEFT or self.installed_by >= self.view.uids


# Founding -----------------------------------------------------------------------------------------

ANOTHER = "violated: (founded while another group can still go on|two groups go on)"


@mutant("founding 42", ANOTHER, Founding, "is_everybody")
def majority_founds(self, names):
    return 2 * len(names) > len(self.founders)


@mutant("founding 109", ANOTHER, Membership, "_handle_founding")
def member_is_fresh(self, life, record, handle=Membership._handle_founding):
    if self.role is Role.MEMBER and isinstance(record, Invite):
        self._founding.on_invite(life, record)
    elif self.role is Role.MEMBER and isinstance(record, Confirm):
        self._founding.on_confirm(life, record)
    else:
        handle(self, life, record)


@mutant("founding 58", "stuck", Membership, "_is_lost")
def lost_members_stay(self, view, now_s):
    return False


@mutant("F4", ANOTHER, Founding, "may_enter")
def late_decision(self, life, record):
    return self.me.life in record.view.uid_of


@mutant("F7", ANOTHER, Founding, "is_confirmed")
def unconfirmed(self):
    return self.fresh.keys() == set(self.founders)


@mutant(
    "founding 1655", "violated: a record of a correct process is refused", Membership, "_is_foreign"
)
def group_ignored(self, life, record):
    return False


# Joiners and learners -----------------------------------------------------------------------------


@mutant("D12", "violated: c is excluded in a calm group", joining, "is_linked")
def join_without_links(join, view, suspects, uid):
    return True


@mutant("N1", r"violated: \d+ views in 30 rounds", joining, "is_only_voter")
def only_voter_replaced(view, name):
    return False


@mutant("N2", "violated: the older process of c is", Membership, "_be_excluded")
def replaced_joins(self, *, replaced):
    self._stop(Reason.EXCLUDED)


@mutant("joins 47", "violated: a name occurs twice", choose, "_joiners")
def name_twice(view, promises, joiners=choose._joiners):
    names = {entry.name for entry in view.entries}
    made = {f"{name} of a joiner": entry for name, entry in joiners(view, promises).items()}
    return {entry.name if entry.name not in names else key: entry for key, entry in made.items()}


@mutant("one_way 5", "violated: sequence number reused", agreement, "choose")
def uid_by_maximum(view, ballot, promises, choose=choose.choose):
    return choose(dataclasses.replace(view, next_uid=max(view.uids) + 1), ballot, promises)


@mutant("D13", r"violated: \d+ views without a reason", Agreement, "wants_change")
def lone_leaver_changes(self, wants_change=Agreement.wants_change):
    return wants_change.fget(self) or self.leaving


@mutant("L4", "violated: the group ends although b could go on", Membership, "is_last")
def learners_left_behind(self):
    agreement = self.agreement
    return agreement.leaving and not agreement.is_frozen and not agreement.has_heir


@mutant("L5", "violated: a leaves before b has its last message", Agreement, "is_accepted")
def no_joint_at_promotion(self, view, accepted):
    return self.is_old_quorum(accepted)


@mutant("L6", "stuck", agreement, "choose")
def learners_vote(view, ballot, promises, choose=choose.choose):
    return choose(view, ballot, {u: p._replace(restored=True) for u, p in promises.items()})


@mutant("L1", "violated: d gets no state after 0 chunks", Membership, "state_failed")
def state_not_retried(self):
    pass


@mutant("L1b", "violated: causal order: state with", Host, "is_awaited")
def chunks_mixed(self, request):
    return True


@mutant("L2", "violated: virtual synchrony", Learning, "is_covered")
def no_gate(self, label):
    return True


@mutant("L2", "stuck", Learning, "is_void")
def no_discard(self, label):
    return False


@mutant("L3", "violated: duplicate", Host, "is_beyond_state")
def no_filter(self, tag):
    return True


@mutant(
    "L7", "violated: state of d lacks messages from before its first view", Learning, "has_past"
)
def state_before_view(epoch, first_epoch):
    return True


@mutant("one_way 1", "stuck", Membership, "restored")
def vote_not_requested(self, restored=Membership.restored):
    restored(self)
    self.agreement.restored = False

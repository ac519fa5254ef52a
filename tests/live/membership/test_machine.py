"""One membership state machine by hand: what it refuses, when it stops, what it bounds."""

import pytest

from precedes.errors import PeerError
from precedes.live.membership import records
from precedes.live.membership.agreement import Report, Timing
from precedes.live.membership.learning import Label
from precedes.live.membership.machine import (
    BODIES_BYTES,
    Data,
    Discard,
    Drop,
    Freeze,
    Install,
    Leave,
    Load,
    Membership,
    Notify,
    Reason,
    Receive,
    RequestState,
    Send,
    Stop,
)
from precedes.live.membership.values import Ballot, Entry, View

NAMES = ("a", "b", "c")
LIVES = {name: name.encode() * 16 for name in (*NAMES, "x")}
GROUP = b"g" * 16
BALLOT = Ballot(1, 1)


def first_view(**changes):
    """View 1 of three."""
    entries = tuple(Entry(uid, name, LIVES[name]) for uid, name in enumerate(NAMES, 1))
    values = {
        "group": GROUP, "epoch": 1, "entries": entries, "voters": frozenset({1, 2, 3}),
        "next_uid": 4, "ballot": BALLOT, "bases": {1: 0, 2: 0, 3: 0},
    }  # fmt: skip
    return View(**{**values, **changes})


def following(*, without=(), left=(), **changes):
    """View 2, of those that are not named."""
    view = first_view()
    uids = [uid for uid in (1, 2, 3) if uid not in (*without, *left)]
    values = {
        "epoch": 2, "entries": tuple(view.entry(uid) for uid in uids), "voters": frozenset(uids),
        "cut": (0, 0, 0), "bases": dict.fromkeys(uids, 0), "left": frozenset(left),
        "ended": {uid: 0 for uid in (*without, *left)}, "successors": {uid: uid for uid in uids},
    }  # fmt: skip
    return first_view(**{**values, **changes})


def member(name="b", **options):
    """A member of view 1, and no effects that are left."""
    made = Membership(
        Entry(0, name, LIVES[name]), NAMES, group=GROUP,
        timing=options.pop("timing", Timing()), **options,
    )  # fmt: skip
    made.receive(LIVES["a"], records.Founded(0, 1, LIVES["a"], first_view()))
    for other in NAMES:
        if other != name:
            uid = NAMES.index(other) + 1
            made.receive(LIVES[other], records.Installed(1, uid, GROUP))
    made.drain()
    return made


def frozen(made, delivered=(0, 0, 0), unstable=(), bodies=None):
    """The same after its promise to a."""
    made.receive(LIVES["a"], records.Prepare(1, BALLOT))
    assert made.drain() == [Freeze()]
    stable = tuple(n - sum(p == at for p, _ in unstable) for at, n in enumerate(delivered))
    made.report(Report(delivered, stable, unstable, bodies or {}))
    return made


def sent(made, kind):
    """Records of a kind that it sends, with the lives they go to."""
    return [(e.life, e.record) for e in made.drain() if isinstance(e, Send)
            and isinstance(e.record, kind)]  # fmt: skip


def promise(**changes):
    """A promise of c."""
    values = {
        "epoch": 1, "ballot": BALLOT, "uid": 3, "accepted_ballot": Ballot(0, 0), "accepted": None,
        "delivered": (2, 0, 0), "stable": (1, 0, 0), "unstable": ((0, 2),),
        "suspects": frozenset(), "leaving": False, "restored": True, "recovering": b"",
        "joiners": (),
    }  # fmt: skip
    return records.Promise(**{**values, **changes})


NO_HOLDERS = (frozenset(),) * 3


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (promise(uid=1), "votes for another"),
        (records.Accepted(1, BALLOT, 2), "votes for another"),
        (records.Prepare(1, Ballot(1, 2)), "not its sender's"),
        (records.Accept(1, Ballot(1, 2), following(), NO_HOLDERS), "not its sender's"),
        (promise(delivered=(2, 0)), "of other members"),
        (promise(stable=(1,)), "of other members"),
        (promise(unstable=()), "what is unstable"),
        (promise(unstable=((0, 1),)), "what is unstable"),
        (promise(unstable=((5, 2),)), "what is unstable"),
        (promise(delivered=(3, 0, 0), unstable=((0, 2), (0, 2))), "what is unstable"),
        (promise(stable=(3, 0, 0), unstable=()), "what is unstable"),
        (promise(suspects=frozenset({9})), "suspects a stranger"),
        (promise(accepted=following(cut=(1,)), accepted_ballot=BALLOT), "a view is impossible"),
        (records.Accept(1, Ballot(1, 3), following(), ()), "holders that are not members"),
        (records.Accept(1, Ballot(1, 3), following(), (frozenset({9}),) * 3), "holders that are"),
        (records.Fetch(1, ((3, 1),)), None),
        (records.Bodies(1, {(3, 1): b""}), "names no member"),
        (records.Decided(1, following(group=b"h" * 16)), "a view is impossible"),
        (records.Decided(1, following(epoch=3)), "a view is impossible"),
        (records.Decided(1, following(cut=(0, 0))), "a view is impossible"),
        (records.Decided(1, following(next_uid=3, without=(3,))), "a view is impossible"),
        (records.Decided(1, following(successors={7: 1})), "a view is impossible"),
        (records.Decided(1, following(without=(3,), ended={3: 0, 7: 1})), "a view is impossible"),
        (records.Decided(1, following(flush=((0, 1),))), "a view is impossible"),
        (records.Decided(1, following(flush=((4, 1),))), "a view is impossible"),
        (records.Invite(0, 1, LIVES["a"]), None),
    ],
    ids=str,
)
def test_records_that_no_correct_member_sends(record, what):
    made = member()
    if what is None:  # harmless: there is nothing to answer
        made.receive(LIVES["c"], record)
        assert made.drain() == []
        return
    with pytest.raises(PeerError, match=what):
        made.receive(LIVES["c"], record)


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (records.Invite(0, 1, LIVES["c"]), "not its sender's"),
        (records.Fresh(0, 1, LIVES["b"], Entry(0, "c", LIVES["c"])), "answers for another"),
        (records.Fresh(0, 1, LIVES["b"], Entry(0, "x", LIVES["a"])), "answers for another"),
        (records.Founded(0, 1, LIVES["a"], first_view(voters=frozenset())), "view is impossible"),
        (records.Founded(0, 1, LIVES["a"], first_view(epoch=2)), "view is impossible"),
    ],
    ids=str,
)
def test_records_that_no_correct_founder_sends(record, what):
    made = Membership(Entry(0, "b", LIVES["b"]), NAMES, group=GROUP, timing=Timing())
    with pytest.raises(PeerError, match=what):
        made.receive(LIVES["a"], record)


def test_founding_waits_for_the_seeds():
    """And one process that is the only founder is a group at once."""
    made = Membership(Entry(0, "a", LIVES["a"]), ("a",), group=GROUP, timing=Timing())
    made.tick(0.0)
    assert made.drain() == []
    made.tried_seeds()
    made.tick(0.1)
    (install,) = made.drain()
    assert isinstance(install, Install)
    assert install.view.group == GROUP
    assert [entry.name for entry in install.view.entries] == ["a"]


def test_data_goes_to_the_node_of_its_epoch():
    made = member()
    made.receive(LIVES["a"], Data(1, b"now"))
    made.receive(LIVES["a"], Data(2, b"early"))
    assert made.drain() == [Receive(LIVES["a"], b"now")]
    frozen(made)
    made.drain()
    made.receive(LIVES["a"], records.Decided(1, following()))
    assert isinstance(made.drain()[0], Install)
    assert made.drain() == [Receive(LIVES["a"], b"early")]
    made.receive(LIVES["a"], Data(1, b"late"))
    assert made.drain() == [Send(LIVES["a"], records.Decided(1, following()))]


def test_records_of_epochs_to_come_are_bounded():
    made = member(early_max=2)
    made.receive(LIVES["a"], records.Change(2))
    made.receive(LIVES["a"], records.Change(2))  # kept once
    made.receive(LIVES["a"], Data(2, b"one"))
    with pytest.raises(PeerError, match="too many records"):
        made.receive(LIVES["a"], Data(2, b"two"))


def test_an_early_record_that_is_malformed_closes_its_link():
    made = frozen(member())
    made.receive(LIVES["c"], records.Accepted(2, BALLOT, 1))
    made.drain()
    made.receive(LIVES["a"], records.Decided(1, following()))
    made.drain()
    (drop,) = made.drain()
    assert isinstance(drop, Drop)
    assert drop.life == LIVES["c"]


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (following(without=(2,)), Reason.EXCLUDED),
        (
            following(
                without=(2,),
                entries=(*following(without=(2,)).entries, Entry(4, "b", b"n" * 16)),
                next_uid=5, bases={1: 0, 3: 0, 4: 0},
            ),
            Reason.REPLACED,
        ),
        (following(cut=(0, 0, 0)), Reason.DIVERGED),
    ],
    ids=lambda value: getattr(value, "name", ""),
)  # fmt: skip
def test_a_member_that_the_others_do_not_keep_stops(view, reason):
    made = frozen(member(), delivered=(1, 0, 0), unstable=((0, 1),), bodies={(0, 1): b"m"})
    made.drain()
    made.receive(LIVES["a"], records.Decided(1, view))
    assert made.drain() == [Stop(reason)]
    made.receive(LIVES["a"], records.Change(1))
    made.tick(100.0)
    assert made.drain() == []


def test_excluded_counts_only_in_its_epoch():
    made = member()
    made.receive(LIVES["a"], records.Excluded(0, False))
    assert made.drain() == []
    made.receive(LIVES["a"], records.Excluded(1, True))
    assert made.drain() == [Stop(Reason.REPLACED)]


def leaver(**timing):
    """b has left with view 2; it was delivered what it wanted to be."""
    made = member(timing=Timing(**timing))
    made.leave()
    frozen(made)
    made.drain()
    made.receive(LIVES["a"], records.Decided(1, following(left=(2,))))
    effects = made.drain()
    assert Leave(following(left=(2,)), is_complete=True) in effects
    return made


def test_a_leaver_stays_until_all_have_installed():
    made = leaver()
    made.receive(LIVES["a"], records.Installed(2, 1, GROUP))
    made.tick(1.0)
    assert made.drain() == []
    made.receive(LIVES["c"], records.Change(1))  # c has not the decision yet
    assert sent(made, records.Decided) == [(LIVES["c"], records.Decided(1, following(left=(2,))))]
    made.receive(LIVES["c"], records.Installed(2, 3, GROUP))
    made.tick(2.0)
    assert made.drain() == [Stop(Reason.LEFT)]


def test_a_leaver_lingers_for_a_bounded_time():
    made = leaver(linger_s=3.0)
    made.tick(2.9)
    assert made.drain() == []
    made.tick(3.0)
    assert made.drain() == [Stop(Reason.LEFT)]


def test_a_leaver_without_the_last_messages_leaves_in_the_end():
    """Nobody has their bodies any more, and no member waits for this one."""
    made = member(timing=Timing(linger_s=3.0))
    made.leave()
    frozen(made)
    view = following(left=(2,), cut=(1, 0, 0), flush=((0, 1),))
    made.receive(LIVES["a"], records.Decided(1, view))
    assert Stop(Reason.LEFT) not in made.drain()
    made.tick(1.0)
    assert len(sent(made, records.Fetch)) == 2
    made.tick(3.5)
    assert Leave(view, is_complete=False) in made.drain()


def test_bodies_are_split():
    large = bytes(BODIES_BYTES - 1)
    bodies = {(0, 1): large, (0, 2): b"..", (0, 3): b"last"}
    made = frozen(member(), (3, 0, 0), tuple(bodies), bodies)
    made.drain()
    made.receive(LIVES["c"], records.Fetch(1, (*bodies, (2, 9), (0, 1))))
    first, second = (record.bodies for _, record in sent(made, records.Bodies))
    assert {**first, **second} == bodies
    assert list(first) == [(0, 1), (0, 2)]


def test_a_suspicion_is_reported_and_ends_with_a_record():
    made = member()
    for uid in (3, 3, 2, 9):  # itself and unknown uids are not suspected
        made.suspect(uid)
    assert made.drain() == [Notify(3, True)]
    assert made.blocked == ()
    made.suspect(1)
    assert made.blocked == ("a", "c")
    made.drain()
    made.receive(LIVES["c"], records.Change(1))
    assert made.drain() == [Notify(3, False)]
    assert made.blocked == ()


def test_a_ballot_waits_for_members_that_are_trusted():
    """And for no longer than ``patience_s``: then it goes on without the silent one."""
    made = member("a", timing=Timing(gather_s=0.0, retry_s=100.0, patience_s=5.0))
    made.request_change()
    made.tick(1.0)
    made.report(Report((0, 0, 0), (0, 0, 0), (), {}))
    made.receive(LIVES["b"], promise(uid=2, delivered=(0, 0, 0), stable=(0, 0, 0), unstable=()))
    made.tick(5.9)
    assert sent(made, records.Accept) == []
    made.tick(6.0)
    proposed = {record.view.uids for _, record in sent(made, records.Accept)}
    assert proposed == {frozenset({1, 2})}


def test_ballots_are_repeated_ever_less_often():
    made = member("a", timing=Timing(gather_s=0.0, retry_s=1.0, retry_max_s=4.0, install_s=1e9))
    made.request_change()
    made.suspect(2)
    made.suspect(3)
    times = []
    for now in range(40):
        made.tick(now / 2)
        if sent(made, records.Prepare):
            times.append(now / 2)
    assert times == [0.0, 1.5, 4.0, 8.5, 13.0, 17.5]


def test_the_next_in_rank_starts_a_ballot_if_the_coordinator_does_not():
    made = member("c", timing=Timing(retry_s=1.0, install_s=1e9))
    made.request_change()
    asked = []
    for now in range(6):
        made.tick(float(now))
        if sent(made, records.Prepare):
            break
        asked.append(now)
    assert asked == [0, 1, 2, 3, 4]


def test_a_member_that_does_not_install_is_suspected():
    made = frozen(member("a", timing=Timing(install_s=5.0)))
    made.receive(LIVES["b"], records.Decided(1, following()))
    made.receive(LIVES["b"], records.Installed(2, 2, GROUP))
    made.drain()
    made.tick(4.0)
    assert made.agreement.suspects == set()
    assert sent(made, records.Decided) == [(LIVES["c"], records.Decided(1, following()))]
    made.tick(5.0)
    assert made.agreement.suspects == {3}


@pytest.mark.parametrize("has_another_group", [False, True])
def test_a_group_that_cannot_go_on_ends(has_another_group):
    made = member(timing=Timing(lost_s=5.0, install_s=1e9))
    made.suspect(1)
    made.suspect(3)
    made.tick(1.0)
    made.tick(10.0)
    assert Stop(Reason.LOST) not in made.drain()  # they may come back
    if has_another_group:
        for uid, name in ((1, "a"), (3, "c")):
            made.receive(LIVES[name], records.Installed(1, uid, b"h" * 16))
    else:
        made.link_up(b"n" * 16, "a")
        made.link_up(b"m" * 16, "c")
    made.tick(11.0)
    assert Stop(Reason.LOST) in made.drain()


def test_records_of_another_group_do_nothing():
    made = member()
    made.receive(LIVES["a"], records.Installed(1, 1, b"h" * 16))
    made.drain()
    for record in (records.Prepare(1, BALLOT), records.Excluded(1, False), Data(1, b"theirs")):
        made.receive(LIVES["a"], record)
    assert made.drain() == []
    made.link_lost(LIVES["a"])
    made.receive(LIVES["a"], Data(1, b"ours"))
    assert made.drain()[-1] == Receive(LIVES["a"], b"ours")


# Joiners ------------------------------------------------------------------------------------------

JOINER = Entry(0, "x", LIVES["x"])
EVERYBODY = frozenset(LIVES[name] for name in NAMES)


def linked(name="b", **options):
    """A member with links to the other two and to x."""
    made = member(name, **options)
    for other in (*NAMES, "x"):
        made.link_up(LIVES[other], other)
    made.drain()
    return made


def joining(**changes):
    """The request of x, or one like it."""
    return records.Join(**{"epoch": 0, "entry": JOINER, "lives": EVERYBODY, **changes})


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (joining(entry=JOINER._replace(life=LIVES["c"])), "asks for another"),
        (joining(entry=JOINER._replace(name="a")), "asks for another"),
        (joining(entry=JOINER._replace(uid=4)), "chooses its uid"),
        (joining(lives=frozenset(n.to_bytes(16, "big") for n in range(2049))), "too many links"),
    ],
)
def test_requests_that_no_correct_joiner_sends(record, what):
    with pytest.raises(PeerError, match=what):
        linked().receive(LIVES["x"], record)


MANY = tuple(Entry(0, f"m{n}", n.to_bytes(16, "big")) for n in range(1025))


@pytest.mark.parametrize(
    ("record", "what"),
    [
        (promise(joiners=(JOINER, JOINER)), "a joiner twice"),
        (promise(joiners=(JOINER._replace(uid=2),)), "as a member"),
        (promise(joiners=MANY), "too many joiners"),
    ],
    ids=["twice", "member", "many"],
)
def test_promises_that_admit_what_no_correct_member_does(record, what):
    with pytest.raises(PeerError, match=what):
        linked("a").receive(LIVES["c"], record)


def test_a_joiner_is_admitted_with_links_to_all_that_are_not_suspected():
    made = linked()
    assert not made.agreement.wants_change
    made.receive(LIVES["x"], joining(lives=frozenset({LIVES["b"], LIVES["c"]})))
    assert made.agreement.joiners == ()
    made.suspect(1)
    assert made.agreement.joiners == (JOINER,)
    made.trust(1)
    assert made.agreement.joiners == ()
    made.receive(LIVES["x"], joining())
    assert made.agreement.joiners == (JOINER,)
    assert made.agreement.wants_change
    made.link_lost(LIVES["x"])
    assert made.agreement.joiners == ()
    made.receive(LIVES["x"], joining())  # late: there is no link any more
    assert made.agreement.joiners == ()


def test_a_life_that_was_in_a_view_is_not_admitted_again():
    """Its request may arrive again when it has left."""
    made = linked()
    made.receive(LIVES["x"], joining())
    added = (*first_view().entries, JOINER._replace(uid=4))
    successors = {uid: uid for uid in (1, 2, 3)}
    second = following(entries=added, bases=dict.fromkeys((1, 2, 3, 4), 0), next_uid=5)
    made.install(second)
    assert made.agreement.joiners == ()
    third = following(
        epoch=3, next_uid=5, left=(4,), ended={4: 0}, successors=successors, cut=(0, 0, 0, 0)
    )
    made.install(third)
    made.receive(LIVES["x"], joining())
    assert made.agreement.joiners == ()
    assert not made.agreement.wants_change


def test_nobody_waits_for_a_member_whose_name_a_joiner_has():
    new = Entry(0, "c", b"n" * 16)
    made = linked(timing=Timing(gather_s=0.0))
    made.link_up(new.life, "c")
    made.receive(new.life, joining(entry=new, lives=EVERYBODY - {LIVES["c"]}))
    assert made.agreement.joiners == (new,)
    assert made.agreement.replaced == {3}
    frozen(made)
    ((_, promised),) = sent(made, records.Promise)
    assert promised.joiners == (new,)


def test_a_joiner_asks_everybody_again_and_again():
    made = Membership(JOINER, NAMES, group=GROUP, timing=Timing(retry_s=1.0))
    made.tick(0.0)
    assert made.drain() == []
    made.link_up(LIVES["a"], "a")
    made.link_up(LIVES["b"], "b")
    lives = frozenset({LIVES["a"], LIVES["b"]})
    times = []
    for now in range(6):
        made.tick(now / 2)
        if effects := sent(made, records.Join):
            times.append(now / 2)
            assert effects == [(life, joining(lives=lives)) for life in sorted(lives)]
    assert times == [0.0, 1.0, 2.0]
    made.receive(LIVES["a"], joining(entry=JOINER._replace(name="y")))  # it is not a member either
    assert made.drain() == []


# Learners -----------------------------------------------------------------------------------------


def admitting(**changes):
    """View 2, with x as a learner."""
    values = {
        "entries": (*first_view().entries, JOINER._replace(uid=4)), "next_uid": 5,
        "cut": (2, 0, 0), "bases": {1: 2, 2: 0, 3: 0, 4: 0}, "voters": frozenset({1, 2, 3}),
    }  # fmt: skip
    return following(**{**values, **changes})


def learner(**options):
    """x in view 2, and its effects."""
    options = {"has_state": True, "timing": Timing(retry_s=1.0), **options}
    made = Membership(JOINER, NAMES, group=GROUP, **options)
    made.tick(0.0)
    made.receive(LIVES["a"], records.Installed(2, 1, GROUP))  # before the decision
    made.receive(LIVES["a"], records.Decided(1, admitting()))
    return made, made.drain()


@pytest.mark.parametrize(
    "record",
    [
        records.Decided(1, admitting(voters=frozenset())),
        records.Decided(2, admitting()),
        records.Decided(0, admitting(epoch=1)),
        records.Decided(1, admitting(entries=(JOINER._replace(uid=4, name="y"),), bases={4: 0},
                                     voters=frozenset({4}), ended={})),
    ],
    ids=["voters", "epoch", "first", "name"],
)  # fmt: skip
def test_views_that_admit_nobody(record):
    made = Membership(JOINER, NAMES, group=GROUP, timing=Timing())
    with pytest.raises(PeerError, match="a view is impossible"):
        made.receive(LIVES["a"], record)


def test_a_learner_requests_the_state_from_one_voter_after_the_other():
    made, effects = learner()
    assert effects[0] == Install(admitting(), 4)
    assert effects[-1] == RequestState(LIVES["c"], 2)
    assert made.is_learner
    assert made.installed_by == {4}
    made.drain()  # the record that came early
    assert made.installed_by == {1, 4}
    made.state_failed()
    assert made.drain() == []  # it was refused at once: the next one after a while
    made.tick(1.0)
    assert [e for e in made.drain() if isinstance(e, RequestState)] == [
        RequestState(LIVES["a"], 2)
    ]  # fmt: skip
    made.suspect(2)
    made.tick(5.0)
    made.state_failed()
    assert RequestState(LIVES["c"], 2) not in made.drain()
    made.tick(6.0)
    assert not made.may_serve(LIVES["a"], 2)


def test_a_state_waits_until_deliveries_cover_it():
    made, _ = learner()
    label = Label(2, {1: 3, 2: 1, 9: 7})  # uid 9 has ended before
    made.state(label)
    made.delivered({1: 3})
    made.state_failed()  # late: it is here
    made.tick(4.0)
    assert not any(isinstance(effect, Load | RequestState) for effect in made.drain())
    made.delivered({2: 1})
    assert made.drain() == [Load(label)]
    made.delivered({2: 2})
    made.tick(4.5)
    assert Load(label) not in made.drain()
    assert made.is_learner
    assert not made.agreement.wants_change
    made.restored()
    assert not made.is_learner
    assert made.agreement.wants_change
    assert made.may_serve(LIVES["a"], 2)
    assert not made.may_serve(LIVES["a"], 3)
    assert not made.may_serve(b"n" * 16, 2)
    made.receive(LIVES["a"], records.Prepare(2, BALLOT))
    made.report(Report((0,) * 4, (0,) * 4, (), {}))
    assert [record.restored for _, record in sent(made, records.Promise)] == [True]


def test_a_state_of_a_later_epoch_waits_for_its_view():
    made, _ = learner()
    label = Label(3, {1: 2})
    made.state(label)
    assert Load(label) not in made.drain()
    finish(made)
    effects = made.drain()
    assert effects[-1] == Load(label)
    assert isinstance(effects[0], Install)


def test_a_state_that_a_later_view_does_not_cover_is_discarded():
    made, _ = learner()
    made.state(Label(2, {1: 3}))
    made.tick(1.0)
    finish(made)
    assert made.drain()[-2:] == [Discard(), RequestState(LIVES["a"], 2)]


def finish(made):
    """View 3, with nothing delivered in view 2."""
    view = admitting(epoch=3, cut=(0, 0, 0, 0), successors={1: 1, 2: 2, 3: 3, 4: 4})
    made.receive(LIVES["a"], records.Decided(2, view))
    made.drain()
    made.report(Report((0,) * 4, (0,) * 4, (), {}))


def test_a_state_older_than_the_first_view_is_refused():
    made, _ = learner()
    with pytest.raises(PeerError, match="older than the view"):
        made.state(Label(1, {}))


def test_a_newcomer_of_a_group_without_state_asks_for_its_vote_at_once():
    made, effects = learner(has_state=False)
    assert not made.is_learner
    assert made.agreement.wants_change
    assert not any(isinstance(effect, RequestState) for effect in effects)
    made.state(Label(2, {}))  # nothing was requested
    assert Load(Label(2, {})) not in made.drain()


def test_a_learner_that_is_excluded_loads_nothing():
    made, _ = learner()
    made.receive(LIVES["a"], records.Excluded(2, False))
    made.state(Label(2, {}))
    made.delivered({1: 3})
    made.state_failed()
    assert made.drain()[-1] == Stop(Reason.EXCLUDED)


def test_the_only_voter_waits_for_a_learner_for_a_bounded_time():
    made = member("a", timing=Timing(drain_s=3.0, install_s=1e9))
    view = following(voters=frozenset({1}))  # b and c have no vote
    frozen(made)
    made.receive(LIVES["b"], records.Decided(1, view))
    made.leave()
    times = []
    for now in (1.0, 2.0, 3.9, 4.0):
        made.tick(now)
        times += [now] * (Stop(Reason.LEFT) in made.drain())
        assert made.agreement is None or not made.agreement.wants_change
    assert times == [4.0]

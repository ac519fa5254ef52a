"""Written schedules for mistakes that a random search meets rarely or never.

Each holds, or is blocked if ``EXPECTED`` says so; the mutants that it convicts are in ``mutants``.
Members are in order of seniority.
"""

from tests.support.membership.adapter import life_bytes

SCHEDULES = {}  # name -> function
EXPECTED = {"L6": "blocked: "}


def schedule(name):
    """Keep a schedule under its name in the specification of the membership."""

    def keep(function):
        SCHEDULES[name] = function
        return function

    return keep


@schedule("D1")
def lowest(stage):
    """Two views accepted under different ballots: the one of the higher ballot wins."""
    w = stage("abc")
    w.prepare("a")
    w.promise("a", "bc")
    w.lose("a", "bc")  # a alone has accepted its view
    w.suspect("b", "a")
    w.prepare("b")
    w.lose("b", "a")
    w.promise("b", "c")
    w.accept("b", "c")  # b decides without a; its links are slow from here on
    w.suspect("c", "b")
    w.prepare("c")
    w.flow("ba", "bc", "ab", "cb")


@schedule("D2")
def old_ballot(stage):
    """ACCEPT of a's ballot reaches c after c accepted b's view under a higher one."""
    w = stage("abc")
    w.suspect("a", "b")
    w.prepare("a")
    w.promise("a", "c")
    w.lose("a", "b")
    w.suspect("b", "a")
    w.prepare("b")
    w.lose("b", "a")
    w.promise("b", "c")
    w.accept("b", "c")  # b decides b c; DECIDED to c is late
    w.pass_("a", "c", "ACCEPT")  # a c would be decided, too
    w.pass_("c", "a")


@schedule("D3")
def old_ack(stage):
    """Acknowledgements of epoch 1 reach e in epoch 2: its message would be stable too early."""
    w = stage("abcde")
    w.broadcast("e")
    w.broadcast("e")
    w.flow()
    w.acknowledge("bcd")
    late = ("be", "ce", "de")
    w.change("a")
    w.flow(*late, "bc", "bd", "cb", "cd", "db", "dc")
    assert all(w[x].epoch == 2 for x in "abcde")
    w.broadcast("e")
    w.pass_("e", "a")
    w.lose("e", "bcd")
    w.acknowledge("ae")
    w.lose("e", "bcd")
    w.pass_("a", "e")
    for x in "bcd":
        w.pass_(x, "e")
    w.kill("ae")


@schedule("D3b")
def old_data(stage):
    """a's message of epoch 1 reaches c in epoch 2, which began with it."""
    w = stage("abc")
    w.broadcast("a")
    w.pass_("a", "b")
    w.prepare("b")
    w.promise("b", "c")
    w.pass_("b", "a", "PREPARE")
    w.pass_("a", "b", "PROMISE")
    w.flow("ac", "ca")
    assert w["c"].epoch == 2
    w.pass_("a", "c")


@schedule("D4")
def early(stage):
    """b is in epoch 2 and broadcasts; its message reaches c before the decision does."""
    w = stage("abc")
    w.prepare("a")
    w.promise("a", "bc")
    w.accept("a", "b")
    w.pass_("a", "b", "DECIDED")
    w.broadcast("b")
    w.pass_("b", "c")


@schedule("D5")
def bodies(stage):
    """c has the only copy of its message, and dies when it has accepted."""
    w = stage("abc")
    w.broadcast("c")
    w.lose("c", "ab")
    w.prepare("a")
    w.promise("a", "bc")
    w.accept("a", "c")
    w.kill("c")


@schedule("D8")
def stable(stage):
    """a suspects c and calls its message stable; c is trusted again and continues without it."""
    w = stage("abc")
    w.suspect("a", "c")
    w.broadcast("a")
    w.pass_("a", "b")
    w.acknowledge("ba")
    w.pass_("b", "a")
    w.change("c")
    w.pass_("c", "a")
    w.prepare("b")
    w.flow("ac", "ca")


@schedule("D9")
def pending(stage):
    """c lacks a body for a's view, promises b, and then the body arrives."""
    w = stage("abcde")
    w.broadcast("d")
    for x in "abe":
        w.pass_("d", x)
    w.suspect("a", "bd")
    w.prepare("a")
    w.promise("a", "ce")
    w.accept("a", "e")
    w.pass_("a", "c", "ACCEPT")
    assert w["c"].pending
    w.suspect("b", "ae")
    w.prepare("b")
    w.promise("b", "cd")
    w.pass_("d", "c", "DATA")
    w.pass_("c", "a")  # would be the third to accept a's view
    w.accept("b", "cd")


@schedule("D10")
def previous(stage):
    """c lacks a body when the epoch is decided; a and b have installed the next view."""
    w = stage("abc")
    w.broadcast("a")
    w.pass_("a", "b")
    w.lose("a", "c")
    w.change("a")
    w.flow("ac", "bc")
    w.pass_("a", "c", "PREPARE")
    w.flow("ac", "bc")
    assert w["a"].epoch == w["b"].epoch == 2
    assert w["c"].epoch == 1


@schedule("D11")
def leaver_lacks(stage):
    """b leaves and lacks a body when all who continue have installed."""
    w = stage("abc")
    w.broadcast("c")
    w.pass_("c", "a")
    w.lose("c", "b")
    w.leave("b")
    w.prepare("a")
    w.promise("a", "bc")
    w.accept("a", "c")
    w.pass_("a", "c")
    w.pass_("c", "a")
    assert w["a"].installed_by == w["c"].installed_by == {1, 3}
    assert w["b"].epoch == 1
    w.converge(70)
    w.flow()
    w.is_over = True
    return "" if w["b"].state == {3: 1} else "b leaves without what it was to deliver"


@schedule("J1")
def joint(stage):
    """a is excluded by a view that it accepts, and would be the last with a body of its flush."""
    w = stage("abcde")
    w.broadcast("e")
    w.pass_("e", "d")
    w.lose("e", "bc")
    w.suspect("b", "a")
    w.suspect("c", "a")
    w.prepare("d")
    for x in "abce":
        w.pass_("d", x, "PREPARE")
    for x in "abce":
        w.pass_(x, "d", "PROMISE")
    w.pass_("e", "a")  # after its promise
    w.accept("d", "ae")  # a, d, e: a quorum of a b c d e, but only two of b c d e
    if w["d"].epoch == 2:  # without the joint rule: decided
        w.pass_("d", "a", "DECIDED")
    w.kill("de")
    w.is_over = True
    return "" if w.converge(70) else "a, b and c are a quorum of five and cannot go on"


@schedule("J2")
def leaver(stage):
    """The senior of two leaves: it alone has the decision until the other has installed."""
    w = stage("ab")
    w.leave("a")
    w.prepare("a")
    w.promise("a", "b")
    w.accept("a", "b")
    assert w["a"].role == "left"
    assert w["b"].epoch == 1
    w.lose("a", "b")  # the decision
    w.tick("a")
    if not w["a"].alive:  # nothing keeps it any longer
        w.due = True
        w.flow()
        return "" if w.converge(70) else "b cannot go on: only a had the decision"
    return ""


@schedule("D12")
def broken_link(stage):
    """The link between b and c is broken: the younger is excluded, and stays outside."""
    w = stage("abc")
    w.cut, w.is_over = {("b", "c"), ("c", "b")}, True
    epochs = []
    for w.calm_round in range(80):
        w.exchange()
        w.detect()
        w.tick("abc")
        epochs.append(w["a"].epoch)
    if [p.role for p in map(w.at.get, "abc")] != ["member", "member", "joiner"]:
        return "b and c stay in one view, or take turns"
    if not epochs[20] == epochs[-1] == 2:
        return f"{epochs[-1] - epochs[20]} views in 60 calm rounds"
    return ""


@schedule("D13")
def waiting(stage):
    """The only voter leaves next to a learner whose state is slow: it waits, changing nothing."""
    w = stage("a", "b")
    w.slow_state, w.is_over = True, True
    w.admit("b", "a")
    w.leave("a")
    for _ in range(60):
        if w["a"].alive:
            w.tick("a")
        w.tick("b")
        w.flow()
    if w["a"].epoch > 2:
        return f"{w['a'].epoch - 2} views without a reason"
    return "" if w["a"].has_left else "a never leaves"


@schedule("D13b")
def lonely(stage):
    """The only voter leaves: it ends, and decides no views before."""
    w = stage("ab")
    w.leave("b")
    w.change("a")
    w.flow()
    w.tick("b")
    w.leave("a")
    w.tick("a", 8)
    w.is_over = True
    if w["a"].epoch > 2:
        return f"{w['a'].epoch - 2} views without a reason"
    return "" if w["a"].has_left and w["b"].has_left else "a never leaves"


# Learners and the state ---------------------------------------------------------------------------


@schedule("L1")
def sender_dies(stage):
    """The member that sends the state dies after each of its chunks."""
    for chunks in range(2):
        w = stage("abc", "d")
        w.broadcast("a")
        w.broadcast("b")
        w.flow()
        w.slow_state = True
        w.admit("d", "a")
        assert w["d"].role == "member"
        assert not w["d"].restored
        w.pass_("d", "c", "GET_STATE")
        for _ in range(chunks):
            w.pass_("c", "d", "STATE")
        w.kill("c")
        w.slow_state = False
        if not w.converge(70):
            return f"d gets no state after {chunks} chunks"
    w.is_over = True
    return ""


@schedule("L1b")
def late_chunk(stage):
    """A chunk of an earlier request arrives between those of a later one."""
    w = stage("abc", "d")
    w.broadcast("a")
    w.flow()
    w.slow_state = True
    w.admit("d", "a")
    w.request("d", "b")
    w.pass_("d", "b", "GET_STATE")
    w.pass_("b", "d", "STATE")  # the second chunk is late
    w.broadcast("a")
    for x in "bcd":
        w.pass_("a", x)
    w.broadcast("b")  # after the second message of a
    w.pass_("b", "c", "DATA")
    w.pass_("b", "d", "DATA")
    w.request("d", "c")
    w.pass_("d", "c", "GET_STATE")
    w.pass_("c", "d", "STATE")
    w.pass_("b", "d", "STATE")
    w.slow_state = False


@schedule("L2")
def sender_excluded(stage):
    """The sender of the state is excluded, and the state has a message that the group lost."""
    w = stage("abc", "d")
    w.slow_state = True
    w.admit("d", "a")
    w.broadcast("c")
    w.lose("c", "abd")  # c alone has it
    w.request("d", "c")
    w.pass_("d", "c", "GET_STATE")
    w.pass_("c", "d", "STATE")
    w.pass_("c", "d", "STATE")
    w.slow_state = False
    w.kill("c")
    w.suspect("a", "c")
    w.tick("a")
    w.flow()


@schedule("L3")
def two_changes(stage):
    """Two view changes happen while one state is transferred."""
    w = stage("abc", "d")
    w.broadcast("b")
    w.flow()
    w.slow_state = True
    w.admit("d", "a")
    w.request("d", "b")
    w.broadcast("a")
    w.flow()
    w.pass_("d", "b", "GET_STATE")
    for _ in range(2):
        w.change("a")
        w.flow()
        w.broadcast("c")
        w.flow()
    assert w["d"].epoch == 4
    assert not w["d"].restored
    w.slow_state = False


@schedule("L4")
def last_voter(stage):
    """The only voter leaves next to a learner: it waits until the learner can vote."""
    w = stage("a", "b")
    w.broadcast("a")
    w.slow_state, w.is_over = True, True
    w.admit("b", "a")
    w.leave("a")
    for _ in range(12):
        if w["a"].alive:
            w.tick("a")
        w.slow_state = False
        w.tick("b")
        w.flow()
    if w["b"].role != "member" or w["b"].view.voters != {2} or w["b"].state != {1: 1}:
        return "the group ends although b could go on"
    return ""


@schedule("L5")
def promoted(stage):
    """One change promotes learner b and lets the only voter leave: b has to accept it."""
    w = stage("a", "b")
    w.admit("b", "a")
    assert w["b"].restored
    w.broadcast("a")
    w.lose("a", "b")  # b lacks the last message of a
    w.leave("a")
    w.prepare("a")
    w.promise("a", "b")
    assert w["b"].uid not in w["b"].view.voters
    if w["a"].role == "left":
        return "a leaves before b has its last message"
    return ""


@schedule("L6")
def without_state(stage):
    """Two learners without state must not go on when the only member with the state dies."""
    w = stage("a", "bc")
    w.broadcast("a")
    w.slow_state = True
    w.join("b", "a")
    w.admit("c", "a")
    assert w["b"].epoch == w["c"].epoch == 2
    w.change("a")  # a further change, before they have the state
    w.flow()
    w.kill("a")


@schedule("L7")
def too_old(stage):
    """b has not installed the view that admits d: its state lacks the end of the epoch before."""
    w = stage("abc", "d")
    w.broadcast("c")
    w.pass_("c", "a")
    w.lose("c", "b")
    w.join("d", "a")
    w.prepare("a")
    w.promise("a", "bc")
    w.slow_state = True
    w.accept("a", "c")
    w.pass_("a", "d")
    assert w["d"].role == "member"
    assert w["b"].epoch == 1
    w.request("d", "b")
    lives = w["b"].machine.view.uid_of
    lives[life_bytes(w["d"].life)] = 4  # as if b knew it
    w.pass_("d", "b", "GET_STATE")
    w.slow_state = False
    w.pass_("b", "d")
    del lives[life_bytes(w["d"].life)]


# Names --------------------------------------------------------------------------------------------


@schedule("N1")
def only_voter(stage):
    """A second process has the name of the only voter: no views without end, no lost state."""
    w = stage("a")
    w.is_over = True
    first = w["a"]
    w.broadcast("a")
    w.double("a")
    for _ in range(30):
        w.tick_all()
        w.flow()
    if first.role != "member":
        return "the only state is lost"
    return f"{first.epoch - 1} views in 30 rounds" if first.epoch > 3 else ""


@schedule("N2")
def replaced(stage):
    """A paused process resumes when another one has its name: it stops, and does not rejoin."""
    w = stage("abc")
    w.is_over = True
    old = w["c"]
    w.double("c")
    w.join("c", "a")
    old.paused = True
    w.tick("a")
    w.flow()
    w.change("a")
    for _ in range(12):
        w.tick("abc")
        w.exchange()
    old.paused = False
    for _ in range(40):
        w.tick_all()
        w.exchange()
        w.detect()
    if old.role == "replaced" and w["c"].role == "member":
        return ""
    return f"the older process of c is {old.role}, the newer one {w['c'].role}"

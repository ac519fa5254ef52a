"""Mistakes that one could make in live groups, each found by a named test for its own reason.

A mutant is one function of ``precedes.live`` with one edit. It must fail in the test that is named
with it, and there in the assertion (or with the refusal between correct members) that is named too;
any other exception leaves it unconvicted. The original passes the same tests.
"""

import contextlib
import importlib
import inspect
import sys
import traceback
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest

from precedes.errors import PeerError
from tests.live import test_driver
from tests.live.member import test_node, test_promises
from tests.live.net import test_link, test_links, test_wire
from tests.support.edited import function
from tests.support.groups import run

TESTS = Path(__file__).parent.parent


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """What is changed where, and which test finds it for which reason."""

    where: str  # module.function or module.Class.method, below precedes.live
    edit: tuple  # what stands there and what instead, as in tests/support/edited.py
    test: object
    reason: str
    given: dict = field(default_factory=dict)


def links(seeds=range(40)):
    """The property of links, without the search for a smallest example."""
    for seed in seeds:
        test_link.test_nothing_is_lost_or_repeated.hypothesis.inner_test(seed)


LOST = test_node.test_a_lost_member_takes_nothing_with_it
CREDIT = test_node.test_credit_is_the_window_less_what_somebody_has_not_taken
WINDOWS = test_promises.test_nobody_has_more_credit_than_the_window
VECTOR = {"protocol": "vector", "seed": 1}

MUTANTS = {
    # Links.
    "resumed one too early": Mutant(
        where="net.link.Link.resume",
        edit=("self.acknowledged + 1", "self.acknowledged"),
        test=links, reason="PeerError: a frame is out of sequence",
    ),
    "resumed from what was acknowledged last, not from what was said": Mutant(
        where="net.link.Link.resume",
        edit=("self.on_acknowledged(received)", "self.acknowledged = self.sent"),
        test=links, reason="PeerError: a frame is out of sequence",
    ),
    "a frame that comes again is taken again": Mutant(
        where="net.link.Link.on_frame",
        edit=(
            "if number > self.received: ...\nreturn False",
            "if number > self.received: ...\nreturn True",
        ),
        test=links, reason="assert pair.got == [sent[1], sent[0]]",
    ),
    "the number of a frame is not looked at": Mutant(
        where="net.link.Link.on_frame",
        edit=("number > self.received", "False"),
        test=test_link.test_what_cannot_be_is_refused,
        given={"frame": (1, 2, 0), "reason": "out of sequence"},
        reason="with pytest.raises(PeerError, match=reason):",
    ),
    "a body is kept no longer than until it is sent": Mutant(
        where="net.link.Link.put",
        edit=("self._kept.append((body, ...))", "self._kept.append((b'', ...))"),
        test=links, reason="assert pair.got == [sent[1], sent[0]]",
    ),
    "acknowledged for ever": Mutant(
        where="net.link.Link.acknowledgement",
        edit=("self._last_sent_ack = self.received", ""),
        test=test_link.test_many_frames_are_acknowledged_at_once,
        reason="assert not link.owes_acknowledgement()",
    ),
    "the checksum of a body ignored": Mutant(
        where="net.wire.Frames.advance",
        edit=("crc32(body) != checksum", "False"),
        test=test_wire.test_a_changed_byte_is_found_wherever_it_is,
        reason="with pytest.raises(wire.Damaged):",
    ),
    "a field of a later version is refused": Mutant(
        where="net.wire.decode_hello",
        edit=(
            "values[tag] = data[...]",
            "values[tag] = data[...]\nif tag >= 6: raise PeerError('an unknown field')",
        ),
        test=test_wire.test_a_greeting_of_a_later_version_is_understood,
        given={"highest": 4, "more": b"\x09\x03\x00new"}, reason="PeerError: an unknown field",
    ),
    "redialled ever more slowly, link or no link": Mutant(
        where="net.links.Links._dial",
        edit=("connection.had_link", "not connection.had_link"),
        test=test_links.test_after_a_link_dialling_begins_with_the_shortest_wait,
        reason='"slower after a link than at first"',
    ),
    "pings only to those who are silent": Mutant(
        where="net.links.Links.tend",
        edit=("connection.said_s", "connection.heard_s"),
        test=test_links.test_idle_connections_are_pinged_and_silent_ones_given_up,
        given={"heard": 0.0, "said": 0.3, "sends": "ping"},
        reason='assert kinds == ([wire.PING] if sends == "ping" else [])',
    ),
    # Credit and stability.
    "bytes in flight are not counted": Mutant(
        where="member.node.Node._number",
        edit=("self._unstable_bytes += size_bytes", ""),
        test=test_node.test_windows_are_bounded_in_bytes_too, given={"many": False},
        reason='assert node.credit == 0, "1200 bytes are in flight"',
    ),
    "stable without the slowest": Mutant(
        where="member.credit._consumed_below",
        edit=("member.behind[b, source] < least", "0 < member.behind[b, source] < least"),
        test=CREDIT, reason='assert node.credit == 0, "member 2 has taken nothing"',
    ),
    "what was delivered is acknowledged, consumed or not": Mutant(
        where="member.credit._consumed_below",
        edit=("member.known[source, arrays.CONSUMED]", "member.known[source, arrays.RECEIVED]"),
        test=test_promises.test_what_is_delivered_and_not_consumed_gives_no_credit,
        reason='credit == 0, "delivered is not consumed"',
    ),
    "credit given twice for one acknowledgement": Mutant(
        where="member.credit.hear_up",
        edit=("member.heard[peer, source] = consumed", "member.heard[peer, source] += consumed"),
        test=WINDOWS, given=VECTOR, reason='"credit for what was not consumed"',
    ),
    "credit is a window beyond what was broadcast": Mutant(
        where="member.node.Node._count_credit",
        edit=(
            "min(stable + ..., ...)",
            "min(registers[arrays.OWN_SEQUENCE] + ..., ...)",
            "registers = self.registers",
        ),
        test=WINDOWS, given=VECTOR, reason='"credit for what was not consumed"',
    ),
    "the window of others is not enforced": Mutant(
        where="member.arrivals._is_legal_route",
        edit=("member.setting[arrays.WINDOW]", "2 * member.setting[arrays.WINDOW]"),
        test=test_promises.test_a_message_beyond_the_window_is_refused,
        reason="assert [records.REASONS[reason] for _, reason in output.malformed] == [",
    ),
    "whatever a peer calls stable is believed": Mutant(
        where="member.arrivals._accept_down",
        edit=("stable > member.known[...]", "False"),
        test=test_promises.test_what_is_stable_is_at_most_what_was_consumed_here,
        reason="malformed] == [-records.IMPOSSIBLE]",
    ),
    "consumed when it is delivered, and when it is taken": Mutant(
        where="inbox.Inbox.put",
        edit=(
            "self._queue.append(batch)",
            "(self._queue.append(batch), self._node.consume_batch(batch))",
        ),
        test=test_driver.test_what_waits_for_the_application_is_not_consumed,
        reason='"consumed by nobody"',
    ),
    "kept until it is consumed here": Mutant(
        where="member.store.forget_stable",
        edit=("known[arrays.STABLE]", "known[arrays.CONSUMED]"),
        test=test_promises.test_kept_messages_go_when_all_have_consumed_them,
        reason='assert kept == 0, "forgotten although member 2 has not consumed it"',
    ),
    # Members that are lost, and that leave.
    "nothing is relayed for a lost member": Mutant(
        where="member.view.accept_frozen",
        edit=("status = _relay(...)", "status = DONE"),
        test=LOST, given=VECTOR, reason="assert network.lacking() == []",
    ),
    "relayed as often as it is asked for": Mutant(
        where="member.view._relay",
        edit=("max(has, member.relayed[peer, who], ...)", "max(has, ...)"),
        test=test_promises.test_what_was_relayed_once_is_not_relayed_again,
        reason='(2 if number == 0 else 0), "relayed again"',
    ),
    "a relay that had come before is new": Mutant(
        where="member.arrivals._accept_relay",
        edit=("sequence < expected", "False"),
        test=test_promises.test_a_relay_that_had_come_before_is_not_delivered_again,
        reason='counts()["duplicates"] == 1',
    ),
    "the view changes and the place in it does not": Mutant(
        where="member.node.Node.run",
        edit=("view.place_in_view(...)", "continue"),
        test=test_node.test_credit_survives_an_eviction,
        reason="assert network.nodes[0].credit == 4",
    ),
    "the view is applied a turn late": Mutant(
        where="driver.Driver.flush",
        edit=("if output.evicted: ...", "if was_finished: ...", "was_finished = ... and ..."),
        test=test_driver.test_who_is_evicted_is_sent_nothing_from_that_turn_on,
        reason='"sent to a member out of the view"',
    ),
    "a farewell is not heard": Mutant(
        where="member.arrivals._accept_record(member, state, peer, at)",
        edit=(
            "if kind == records.LEAVE: ...",
            "if kind == records.LEAVE: return at + records.KIND_BYTES",
        ),
        test=test_promises.test_a_farewell_is_heard_at_once_and_is_no_crash,
        reason='"a farewell was not heard"',
    ),
    "a farewell is taken for a crash": Mutant(
        where="member.arrivals._accept_record",
        edit=("effects.report(...)", ""),
        test=test_promises.test_a_farewell_is_heard_at_once_and_is_no_crash,
        reason='"a farewell was taken for a crash"',
    ),
    "an own pause is not forgiven": Mutant(
        where="member.node.Node.forgive",
        edit=("due_ns + late_ns * owner", "due_ns"),
        test=test_promises.test_after_an_own_pause_replies_are_awaited_anew,
        reason='"an own pause was held against another"',
    ),
    "an own pause is not noticed": Mutant(
        where="driver.Driver.is_late",
        edit=("... > self._patience_ns", "False"),
        test=test_driver.test_a_member_that_was_stopped_suspects_nobody,
        given={"late": True}, reason='"an own pause was held against others"',
    ),
    # Logs.
    "sent before it is logged": Mutant(
        where="driver.Driver.flush",
        edit=(
            "if (trace := self._trace) and ...: ...",
            "self._send(output)\nif (trace := self._trace) and ...: ...",
            "output = node.run(...)",
        ),
        test=test_driver.test_a_broadcast_is_logged_before_it_is_sent,
        reason='"sent before it was logged"',
    ),
}  # fmt: skip


def home_of(where):
    """The module of a function or method, and its name there, with its parameters if named."""
    path, bracket, parameters = where.partition("(")
    path, _, name = path.rpartition(".")
    owner_path, _, class_name = path.rpartition(".")
    if class_name[:1].isupper():
        path, name = owner_path, f"{class_name}.{name}"
    return importlib.import_module(f"precedes.live.{path}"), name + bracket + parameters


def apply(monkeypatch, mutant):
    """Put the edited function wherever the original is used."""
    module, where = home_of(mutant.where)
    edited = function(module, where, *mutant.edit)
    class_name, _, name = where.partition("(")[0].rpartition(".")
    if class_name:
        monkeypatch.setattr(getattr(module, class_name), name, edited)
        return
    original = getattr(module, name)
    for other in [*sys.modules.values()]:
        if getattr(other, "__name__", "").startswith("precedes.live"):
            for key, value in list(vars(other).items()):
                if value is original:
                    monkeypatch.setattr(other, key, edited)


def arguments_of(test, given, request):
    """What a test asks for: what is given, and fixtures."""
    if isinstance(test, partial):
        return {}
    names = [
        name
        for name, parameter in inspect.signature(test).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    return {name: given[name] if name in given else request.getfixturevalue(name) for name in names}


def conviction(test, arguments):
    """Why a test fails: the line of its assertion, or how correct members refuse each other."""
    try:
        done = test(**arguments)
        if inspect.iscoroutine(done):
            run(done)
    except (AssertionError, pytest.fail.Exception) as error:
        places = traceback.extract_tb(error.__traceback__)
        own = [place for place in places if Path(place.filename).is_relative_to(TESTS)]
        return own[-1].line
    except PeerError as error:
        return f"PeerError: {error}"
    return None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_convicted_for_its_own_reason(name, request, monkeypatch):
    mutant = MUTANTS[name]
    arguments = arguments_of(mutant.test, mutant.given, request)
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        apply(patch, mutant)
        found = conviction(mutant.test, arguments)
    assert found is not None, "it survives"
    print(f"{name}: {found}")
    assert mutant.reason in found


def distinct():
    """Each test once, with what it is given."""
    seen = {}
    for mutant in MUTANTS.values():
        name = getattr(mutant.test, "__name__", "links")
        seen[f"{name}{sorted(mutant.given.items())}"] = mutant
    return seen


@pytest.mark.parametrize("name", distinct())
def test_the_original_passes(name, request):
    mutant = distinct()[name]
    assert conviction(mutant.test, arguments_of(mutant.test, mutant.given, request)) is None

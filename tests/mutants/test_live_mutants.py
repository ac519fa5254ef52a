"""Mistakes that one could make in live groups, each found by a named test for its own reason.

A mutant is one function of ``precedes.live`` with one edit. It must fail in the test that is named
with it, and there in the assertion (or with the refusal between correct members) that is named too;
any other exception leaves it unconvicted.
"""

import importlib
import inspect
import sys
import traceback
from pathlib import Path

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from precedes.errors import PeerError
from tests.live import test_driver, test_epoch
from tests.live.member import test_node, test_promises
from tests.live.net import test_frames, test_link, test_links, test_wire
from tests.support.edited import function
from tests.support.groups import run

TESTS = Path(__file__).parent.parent


def links():
    """The property of links, without the search for a smallest example."""
    common = test_frames.TestFrames.settings
    once = settings(common, max_examples=200, phases=[Phase.generate], derandomize=True)
    run_state_machine_as_test(
        test_frames.Frames, settings=settings(once, report_multiple_bugs=False)
    )


CREDIT = test_node.test_credit_is_the_window_less_what_somebody_has_not_taken
WINDOWS = test_promises.test_nobody_has_more_credit_than_the_window
VECTOR = {"protocol": "vector", "seed": 1}

# The mistake -> module.function or module.Class.method, below precedes.live; what stands there and
# what instead (tests/support/edited.py); which test finds it, for which reason, with what given.
MUTANTS = {
    # Links.
    "resumed one too early": (
        "net.link.Link.resume", ("self.acknowledged + 1", "self.acknowledged"), links,
        "assert self.got == self.sent[::-1]",
    ),
    "resumed from what was acknowledged last, not from what was said": (
        "net.link.Link.resume", ("self.on_acknowledged(received)", "self.acknowledged = self.sent"),
        links, "PeerError: a frame is out of sequence",
    ),
    "a frame that comes again is taken again": (
        "net.link.Link.on_frame",
        ("if number > self.received: ...\nreturn False",
         "if number > self.received: ...\nreturn True"), links,
        "assert self.got == self.sent[::-1]",
    ),
    "the number of a frame is not looked at": (
        "net.link.Link.on_frame", ("number > self.received", "False"),
        test_link.test_what_cannot_be_is_refused, "with pytest.raises(PeerError, match=reason):",
        {"frame": (1, 2, 0), "reason": "out of sequence"},
    ),
    "a body is kept no longer than until it is sent": (
        "net.link.Link.put",
        ("self._kept.append((body, ..., ...))", "self._kept.append((b'', 1, 0))"),
        links, "assert self.got == self.sent[::-1]",
    ),
    "acknowledged forever": (
        "net.link.Link.acknowledgement", ("self._last_sent_ack = self.received", ""),
        test_link.test_many_frames_are_acknowledged_at_once,
        "assert not link.owes_acknowledgement()",
    ),
    "the checksum of a body ignored": (
        "net.wire.Frames.advance", ("crc32(body) != checksum", "False"),
        test_wire.test_a_changed_byte_is_found_wherever_it_is, "with pytest.raises(wire.Damaged):",
    ),
    "a field of a later version is refused": (
        "net.wire.decode_hello",
        ("values[tag] = data[...]",
         "values[tag] = data[...]\nif tag >= 6: raise PeerError('an unknown field')"),
        test_wire.test_a_handshake_of_a_later_version_is_understood, "PeerError: an unknown field",
        {"highest": 4, "more": b"\x09\x03\x00new"},
    ),
    "redialled ever more slowly, link or no link": (
        "net.links.Links._connect", ("connection.had_link", "not connection.had_link"),
        test_links.test_after_a_link_dialling_begins_with_the_shortest_wait,
        '"slower after a link than at first"',
    ),
    "pings only to those who are silent": (
        "net.links.Links.tend", ("connection.sent_s", "connection.received_s"),
        test_links.test_idle_connections_are_pinged_and_silent_ones_given_up,
        'assert kinds == ([wire.PING] if sends == "ping" else [])',
        {"heard": 0.0, "said": 0.3, "sends": "ping"},
    ),
    # Credit and stability.
    "bytes in flight are not counted": (
        "member.node.Node._number", ("self._unstable_bytes += size_bytes", ""),
        test_node.test_windows_are_bounded_in_bytes_too,
        'assert node.credit == 0, "1200 bytes are in flight"', {"many": False},
    ),
    "stable without the slowest": (
        "member.credit._consumed_below",
        ("member.behind[b, source] < least", "0 < member.behind[b, source] < least"), CREDIT,
        'assert node.credit == 0, "member 2 has taken nothing"',
    ),
    "what was delivered is acknowledged, consumed or not": (
        "member.credit._consumed_below",
        ("member.known[source, arrays.CONSUMED]", "member.known[source, arrays.RECEIVED]"),
        test_promises.test_what_is_delivered_and_not_consumed_gives_no_credit,
        'credit == 0, "delivered is not consumed"',
    ),
    "credit given twice for one acknowledgement": (
        "member.credit.apply_up",
        ("member.consumed_behind[peer, source] = consumed",
         "member.consumed_behind[peer, source] += consumed"),
        WINDOWS, '"credit for what was not consumed"', VECTOR,
    ),
    "credit is a window beyond what was broadcast": (
        "member.node.Node._count_credit",
        ("min(stable + ..., ...)", "min(registers[arrays.OWN_SEQUENCE] + ..., ...)",
         "registers = self.registers"), WINDOWS, '"credit for what was not consumed"', VECTOR,
    ),
    "the window of others is not enforced": (
        "member.arrivals._is_legal_route",
        ("member.setting[arrays.WINDOW]", "2 * member.setting[arrays.WINDOW]"),
        test_promises.test_a_message_beyond_the_window_is_refused,
        "assert [records.REASONS[reason] for _, reason in output.malformed] == [",
    ),
    "whatever a peer calls stable is believed": (
        "member.arrivals._accept_down", ("stable > member.known[...]", "False"),
        test_promises.test_what_is_stable_is_at_most_what_was_consumed_here,
        "malformed] == [-records.IMPOSSIBLE]",
    ),
    "consumed when it is delivered, and when it is taken": (
        "inbox.Inbox.put",
        ("self._queue.append(batch)",
         "(self._queue.append(batch), self._driver.consume(batch))"),
        test_driver.test_what_waits_for_the_application_is_not_consumed, '"consumed by nobody"',
    ),
    "kept until it is consumed here": (
        "member.store.forget_stable", ("known[arrays.STABLE]", "known[arrays.CONSUMED]"),
        test_promises.test_kept_messages_go_when_all_have_consumed_them,
        'assert kept == 0, "forgotten although member 2 has not consumed it"',
    ),
    # The end of an epoch.
    "what is not stable is dropped": (
        "epoch.Epoch._trim", ("(self._turns[0].delivered <= stable).all()", "True"),
        test_epoch.test_a_report_has_what_some_member_may_not_have_consumed,
        "assert report.delivered == tuple(delivered)", {**VECTOR, "trim_bytes": 0},
    ),
    "own messages are not kept": (
        "member.node.Node.unstable", ("number > self.own_stable", "False"),
        test_epoch.test_a_report_has_what_some_member_may_not_have_consumed,
        "assert report.bodies == {", {**VECTOR, "trim_bytes": 0},
    ),
    "a callback may broadcast in the last turn of an epoch": (
        "driver.Driver._freeze", ("self._takes_data = False", ""),
        test_driver.test_nothing_is_broadcast_in_the_last_turn_of_an_epoch,
        '"a callback may broadcast in the last turn"',
    ),
    "names begin again with a view": (
        "epoch.Epoch.named(self, table)", ("if self.is_first: ...", "return table"),
        test_epoch.test_names_go_on_in_the_next_epoch, "assert many.sequences",
    ),
    "the log has positions": (
        "epoch.Epoch.logged", ("self._member_at[source] << SOURCE_SHIFT", "source << SOURCE_SHIFT"),
        test_epoch.test_names_go_on_in_the_next_epoch, "assert epoch.logged(",
    ),
    "a member out of the view is sent to": (
        "driver.Driver._install", ('self.on_loss == "view"', "False"),
        test_driver.test_who_is_excluded_is_sent_nothing_from_that_view_on,
        '"sent to a member out of the view"',
    ),
    "an own pause is not forgiven": (
        "member.node.Node.forgive", ("due_ns + late_ns * owner", "due_ns"),
        test_promises.test_after_an_own_pause_replies_are_awaited_again,
        '"an own pause was held against another"',
    ),
    "an own pause is not noticed": (
        "driver.Driver.is_late", ("... > self._patience_ns", "False"),
        test_driver.test_a_member_that_was_stopped_suspects_nobody,
        '"an own pause was held against others"', {"late": True},
    ),
    # Logs.
    "sent before it is logged": (
        "driver.Driver._run_node",
        ("self._log(...)", "self._send(output)\nself._log(output.trace, at_once=True)",
         "output = node.run(...)"),
        test_driver.test_a_broadcast_is_logged_before_it_is_sent, '"sent before it was logged"',
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


def apply(monkeypatch, place, edit):
    """Put the edited function wherever the original is used."""
    module, where = home_of(place)
    edited = function(module, where, *edit)
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
    """The arguments of a test: parameters and fixtures."""
    names = [
        name
        for name, parameter in inspect.signature(test).parameters.items()
        if parameter.default is inspect.Parameter.empty
    ]
    return {name: given[name] if name in given else request.getfixturevalue(name) for name in names}


def conviction(test, arguments):
    """The reason of a failure: the line of the assertion, or a refusal between correct members."""
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
def test_a_mutant_is_convicted_for_its_own_reason(name, request):
    """The original passes: these are tests like any others."""
    where, edit, test, reason, *given = MUTANTS[name]
    arguments = arguments_of(test, *given or [{}], request)
    with pytest.MonkeyPatch.context() as patch:
        apply(patch, where, edit)
        found = conviction(test, arguments)
    assert found is not None, "it survives"
    print(f"{name}: {found}")
    assert reason in found

"""Mistakes in the TCP of ``flooding``, each convicted by the trace of the rule that it breaks."""

import functools

import pytest

from tests.support.convictions import Raises, assert_convicted
from tests.support.flooding.ends import edited
from tests.support.flooding.traces import JUDGES

FORGIVEN = """
trip = self.trip
timeout_ns = trip.mean_ns + 4 * trip.deviation_ns
trip.timeout_ns = min(max(timeout_ns, trip.min_ns), trip.max_ns)
"""
NEW_ATTEMPT = "client is None or client.attempt < datagram.attempt"

# The mistake -> what it is convicted for, and the edit: where, what stands there, what instead.
MUTANTS = {
    "the first time-out is the shortest": (
        "first time-out",
        (
            "RoundTrip.__init__", "self.timeout_ns = first_ns", "self.timeout_ns = min_ns",
            "self.min_ns, self.max_ns = min_ns, max_ns",
        ),
    ),
    "the timer runs on when all is acknowledged": (
        "timer", ("_on_progress", "self.timer_runs = False", ""),
    ),
    "samples count for a quarter": ("estimate", ("", "GAIN: Final = ...", "GAIN: Final = 4")),
    "no minimum": ("minimum", ("sample", "max(timeout_ns, ...)", "timeout_ns")),
    "no maximum of estimates": ("maximum", ("sample", "min(..., self.max_ns)", "...")),
    "no back-off": ("doubling", ("back_off", "self.timeout_ns = ...", "")),
    "what was repeated is timed": ("sample", ("_repeat", "self.timed = -1", "")),
    "what goes again after a time-out is timed": (
        "sample", ("_push", "first >= self.sent", "True"),
    ),
    "progress ends a back-off": ("back-off", ("_on_progress(self)", "", FORGIVEN)),
    "slow start is slower": (
        "slow start",
        ("_on_progress", "self.congestion_bytes += segment", "self.congestion_bytes += 1"),
    ),
    "fast retransmit at the second duplicate": (
        "fast retransmit", ("", "DUPLICATES: Final = ...", "DUPLICATES: Final = 2"),
    ),
    "what brings data is a duplicate": (
        "duplicates", ("_on_acknowledgement", "... and is_bare", "..."),
    ),
    "the window is not halved": ("recovery", ("_halve", "window // 2", "window")),
    "recovery does not end": (
        "recovery", ("_on_progress", "self.congestion_bytes = self.threshold_bytes", ""),
    ),
    "no congestion avoidance": (
        "avoidance", ("_on_progress", "max(segment * segment // ..., 1)", "segment"),
    ),
    "a time-out leaves the window": (
        "loss window", ("on_timer", "self.congestion_bytes = ...", ""),
    ),
    "a pause leaves the window": ("pause", ("_push", "... > self.trip.timeout_ns", "False")),
    "the receiver's window is not heeded": (
        "window", ("_push", "min(self.congestion_bytes, ...)", "self.congestion_bytes"),
    ),
    "short segments do not wait": (
        "Nagle", ("_push", "nagle and count < segment and ...", "False"),
    ),
    "acknowledgements do not wait": (
        "delayed", ("_acknowledge_later", "settings.delayed_ack_ns == 0", "True"),
    ),
    "what was carried is sent again": ("carried", ("_send", "self._acknowledgement_sent()", "")),
    "full segments wait": (
        "every second", ("", "FULL_SEGMENTS: Final = ...", "FULL_SEGMENTS: Final = 99"),
    ),
    "data out of order is ignored": ("out of order", ("receive", "self.acknowledge()", "")),
    "what fills a gap waits": ("gap", ("_acknowledge_later", "fills_gap or ...", "False or ...")),
    "what was delivered is kept": ("held", ("insert", "number >= complete", "True")),
    "a gap is stepped over": (
        Raises(KeyError, r"^0$"), ("insert", "first > self.expected", "False"),
    ),
    "pieces are united over gaps": (
        Raises(KeyError, r"^3$"), ("_keep", "piece[1] < first or end < piece[0]", "False"),
    ),
    "parts of messages are not counted": (
        "order",
        (
            "_on_progress", "expected // each - self.acknowledged // each",
            "(expected - self.acknowledged) // each",
        ),
    ),
    "requests come at one pace": ("connect", ("_ask", "self.pause_ns *= 2", "")),
    "any answer is taken": (
        "attempt", ("receive", "type(datagram) is Opened and ...", "type(datagram) is Opened"),
    ),
    "a station answers once": ("answer", ("on_timer", "self._answer(...)", "")),
    "a new attempt goes on with the old": ("attempt", ("receive", NEW_ATTEMPT, "client is None")),
}  # fmt: skip


def trials(package):
    """The traces, each as a function that judges a package."""
    for judge in JUDGES:
        yield functools.partial(judge, package)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_is_convicted(mistake, tmp_path):
    reason, *edits = MUTANTS[mistake]
    assert_convicted(mistake, trials(edited(tmp_path, *edits)), reason)

"""Mistakes in the TCP of ``flooding``, each convicted by the trace of the rule that it breaks."""

import functools

import pytest

from tests.support.convictions import Raises, assert_convicted
from tests.support.flooding.ends import edited
from tests.support.flooding.traces import JUDGES

ESTIMATE = "min(max(timeout_ns, self.min_ns), self.max_ns)"
DOUBLED = "self.timeout_ns = min(2 * self.timeout_ns, self.max_ns)"
PROGRESS = "        if expected < self.sent:\n            self._arm()\n"
FORGIVEN = """        trip = self.trip
        timeout_ns = trip.mean_ns + 4 * trip.deviation_ns
        trip.timeout_ns = min(max(timeout_ns, trip.min_ns), trip.max_ns)
"""
OPENED = "if self.congestion_bytes < self.threshold_bytes:\n            self.congestion_bytes += "

# The mistake -> what it is convicted for, what stands in a file and what the mutant has instead.
MUTANTS = {
    "the first time-out is the shortest": (
        "first time-out", "        self.timeout_ns = first_ns\n",
        "        self.timeout_ns = min_ns\n",
    ),
    "the timer runs on when all is acknowledged": (
        "timer", "        else:\n            self.timer_runs = False\n", "",
    ),
    "progress does not begin the time-out anew": (
        "timer", PROGRESS, PROGRESS.replace("self._arm()", "pass"),
    ),
    "samples count for a quarter": ("estimate", "GAIN: Final = 8", "GAIN: Final = 4"),
    "two deviations": (
        "estimate", "self.mean_ns + DEVIATIONS * self", "self.mean_ns + 2 * self",
    ),
    "no minimum": ("minimum", ESTIMATE, "min(timeout_ns, self.max_ns)"),
    "no maximum of estimates": ("maximum", ESTIMATE, "max(timeout_ns, self.min_ns)"),
    "no back-off": ("doubling", DOUBLED, "pass"),
    "no maximum of back-offs": ("doubling", DOUBLED, "self.timeout_ns *= 2"),
    "what was repeated is timed": (
        "sample", "        self.timed = -1\n        self._send(", "        self._send(",
    ),
    "what goes again after a time-out is timed": (
        "sample", "if first >= self.sent and self.timed < 0:", "if self.timed < 0:",
    ),
    "progress ends a back-off": ("back-off", PROGRESS, FORGIVEN + PROGRESS),
    "slow start is slower": ("slow start", OPENED + "segment\n", OPENED + "1\n"),
    "fast retransmit at the second duplicate": (
        "fast retransmit", "DUPLICATES: Final = 3", "DUPLICATES: Final = 2",
    ),
    "no fast retransmit": (
        "fast retransmit", "                self._repeat()\n", "",
    ),
    "what brings data is a duplicate": (
        "duplicates", "expected == self.acknowledged < self.sent and is_bare:",
        "expected == self.acknowledged < self.sent:",
    ),
    "the window is not halved": (
        "recovery", "self.threshold_bytes = max(window // 2, 2 * segment)",
        "self.threshold_bytes = max(window, 2 * segment)",
    ),
    "duplicates let nothing go": (
        "recovery", "                self.congestion_bytes += self.settings.segment_bytes\n", "",
    ),
    "recovery does not end": (
        "recovery", "if self.duplicates >= DUPLICATES:\n            self.congestion_bytes =",
        "if self.duplicates >= DUPLICATES:\n            _ =",
    ),
    "no congestion avoidance": (
        "avoidance", "max(segment * segment // self.congestion_bytes, 1)", "segment",
    ),
    "a time-out leaves the window": (
        "loss window",
        "            self.congestion_bytes = self.settings.segment_bytes\n            self.dup",
        "            self.dup",
    ),
    "after a time-out only one segment is repeated": (
        "loss window", "self.next = self.acknowledged + self._repeat()", "self._repeat()",
    ),
    "a pause leaves the window": (
        "pause", "if now_ns - self.sent_ns > self.trip.timeout_ns:", "if now_ns < 0:",
    ),
    "the receiver's window is not heeded": (
        "window", "min(self.congestion_bytes, settings.window_bytes)\n        count",
        "self.congestion_bytes\n        count",
    ),
    "short segments do not wait": (
        "Nagle", "if count <= 0 or (nagle and", "if count <= 0 or (False and",
    ),
    "Nagle's rule holds back what an acknowledgement lets go": (
        "Nagle", "        self._push()\n\n    # Receiving.",
        "        self._push(nagle=self.settings.nagle)\n\n    # Receiving.",
    ),
    "acknowledgements do not wait": ("delayed", "settings.delayed_ack_ns == 0:", "True:"),
    "what was carried is sent again": (
        "carried", "        self._acknowledgement_sent()\n\n    def _repeat", "\n    def _repeat",
    ),
    "full segments wait": ("every second", "FULL_SEGMENTS: Final = 2", "FULL_SEGMENTS: Final = 99"),
    "what is out of order is not told": (
        "out of order", "            self.acknowledge()  # out", "            pass  # out",
    ),
    "what fills a gap waits": ("gap", "if fills_gap or self", "if self"),
    "what came early is forgotten": (
        "gap", "while self.pieces and self.pieces[0][0] <= self.expected:", "while False:",
    ),
    "what was delivered is kept": ("held", "if number >= complete:", "if number >= 0:"),
    "a gap is stepped over": (
        Raises(KeyError, r"^0$"), "if first > self.expected:", "if first < 0:",
    ),
    "pieces are united over gaps": (
        Raises(KeyError, r"^3$"), "if piece[1] < first or end < piece[0]:", "if False:",
    ),
    "parts of messages are not counted": (
        "order", "range(expected // each - self.acknowledged // each)",
        "range((expected - self.acknowledged) // each)",
    ),
    "requests come at one pace": ("connect", "        self.pause_ns *= 2\n", ""),
    "an attempt takes as long as it takes": (
        "connect", "max(min(self.pause_ns, left_ns), 1)", "self.pause_ns",
    ),
    "any answer is taken": (
        "attempt", "is Opened and datagram.attempt == self.attempt:", "is Opened:",
    ),
    "a station answers once": (
        "answer", "        self._answer(host, guest)\n        else:\n",
        "        pass\n        else:\n",
    ),
    "a station answers for ever": (
        "answer", "if number == guest.attempt and not guest.connection.is_ready:",
        "if number == guest.attempt:",
    ),
    "a new attempt goes on with the old": (
        "attempt", "if guest is None or guest.attempt < datagram.attempt:", "if guest is None:",
    ),
    "an old request begins anew": (
        "attempt", "if guest is None or guest.attempt < datagram.attempt:",
        "if guest is None or guest.attempt != datagram.attempt:",
    ),
}  # fmt: skip


def trials(package):
    """The traces, each as a function that judges a package."""
    for judge in JUDGES:
        yield functools.partial(judge, package)


@pytest.mark.parametrize("mistake", MUTANTS)
def test_is_convicted(mistake, tmp_path):
    reason, old, new = MUTANTS[mistake]
    assert_convicted(mistake, trials(edited(tmp_path, (old, new))), reason)

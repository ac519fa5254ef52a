"""What goes wrong, as a schedule fixed before the run: crashes, pauses, cut links."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

CRASH: Final = 0
PAUSE: Final = 1
CUT: Final = 2

FOR_EVER_NS: Final = 1 << 62


class Faults(NamedTuple):
    """The schedule, a row each, and what has come of it."""

    kind: NDArray[np.int64]
    node: NDArray[np.int64]
    other: NDArray[np.int64]  # CUT: the far end of the link
    until_ns: NDArray[np.int64]  # PAUSE, CUT
    holds: NDArray[np.bool_]  # CUT: packets wait for the end instead of vanishing
    detection_ns: NDArray[np.int64]  # node, node: how long after a crash the observer learns it
    blocked_until_ns: NDArray[np.int64]  # node -> end of its pause; FOR_EVER_NS once crashed
    sends_left: NDArray[np.int64]  # node -> packets until it crashes in mid-send; -1: never

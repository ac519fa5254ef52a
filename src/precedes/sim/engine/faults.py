"""What goes wrong, as a schedule fixed before the run: crashes, pauses, cut links."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

# Kinds.
CRASH: Final = 0
PAUSE: Final = 1
CUT: Final = 2

# Columns of ``schedule``.
KIND: Final = 0
TIME_NS: Final = 1
NODE: Final = 2
OTHER: Final = 3  # CUT: the far end of the link
UNTIL_NS: Final = 4  # PAUSE, CUT; negative for a CUT whose packets wait for its end

FOR_EVER_NS: Final = 1 << 62


class Faults(NamedTuple):
    """The schedule, a row each, and how long it takes to notice a crash."""

    schedule: NDArray[np.int64]
    detection_ns: NDArray[np.int64]  # crashed, observer: how long after it the observer knows

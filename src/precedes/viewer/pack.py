"""Packs what is shown of a run: arrays back to back, and what is said of them as plain values."""

from __future__ import annotations

import base64
import gzip
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

FORMAT: Final = 1
BROADCAST: Final = 0
DELIVERY: Final = 1
PENDING: Final = 2  # received and never delivered
VIOLATION: Final = 3  # a delivery
DROPPED: Final = 4
NO_LANE: Final = 0xFFFF
LANES_MAX: Final = NO_LANE
LEVEL: Final = 4  # on these arrays smaller than 6 and 9, and 4 to 30 times as fast


@dataclass(frozen=True, eq=False, kw_only=True)
class Packed:
    """A run as a page holds it: ``docs/view.md`` says what the arrays are."""

    head: dict[str, Any]
    time_us: NDArray[np.float64]
    message: NDArray[np.uint32]
    wait_us: NDArray[np.uint32]
    lane: NDArray[np.uint16]
    kind: NDArray[np.uint8]
    message_source: NDArray[np.uint16]
    message_sequence: NDArray[np.uint32]

    def bytes(self) -> bytes:
        """The arrays, little-endian, back to back: 19 bytes an event and 6 a message."""
        return b"".join(
            [
                self.time_us.astype("<f8").tobytes(),
                self.message.astype("<u4").tobytes(),
                self.wait_us.astype("<u4").tobytes(),
                self.lane.astype("<u2").tobytes(),
                self.kind.astype("u1").tobytes(),
                self.message_source.astype("<u2").tobytes(),
                self.message_sequence.astype("<u4").tobytes(),
            ]
        )

    def text(self) -> str:
        """The same in gzip and base64, without a date."""
        return base64.b64encode(gzip.compress(self.bytes(), LEVEL, mtime=0)).decode()

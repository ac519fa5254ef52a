"""What a page lacks of its log, in numbers and in a sentence."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from precedes.viewer.events import Events
from precedes.viewer.window import Extent


def left_out(
    events: Events, extent: Extent, lanes: list[int], time_us: NDArray[np.int64], shown: int
) -> dict[str, Any] | None:
    """None if nothing is; ``before_us`` and ``after_us`` are how much time is missing there."""
    missing = extent.events - shown
    kept = set(lanes)
    absent = [name for node, name in enumerate(events.nodes) if node not in kept]
    if missing == 0 and not absent:
        return None
    before = max(0, int(time_us[0]) - extent.begin_us)
    after = max(0, extent.end_us - int(time_us[-1]))
    sentence = f"{missing:,} of {extent.events:,} events are left out"
    parts = []
    if before:
        parts.append(f"before {_ms(int(time_us[0]))}")
    if after:
        parts.append(f"after {_ms(int(time_us[-1]))}")
    if absent:
        more = ", ..." if len(absent) > 5 else ""
        parts.append(f"at {len(absent):,} nodes ({', '.join(absent[:5])}{more})")
    return {
        "events": missing,
        "lanes": absent,
        "before_us": before,
        "after_us": after,
        "sentence": f"{sentence}: {', '.join(parts)}." if parts else f"{sentence}.",
    }


def _ms(time_us: int) -> str:
    return f"{time_us / 1000:,.3f}".rstrip("0").rstrip(".") + " ms"

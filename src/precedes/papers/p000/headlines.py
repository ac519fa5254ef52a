"""What de Araujo et al. 2018 are read for."""

from typing import Final

from precedes.papers.headlines import Headlines, Statement
from precedes.papers.p000.experiments import LARGEST, READINGS


def _readings(key: str) -> dict[str, str]:
    return {f"reading {name}": f"{key}, reading {name}" for name in READINGS}


HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says=f"aggregation saves {{}} of the packets of {LARGEST:,} nodes",
            short="packets saved, 1,024 nodes",
            item="Table 1",
            keys=_readings(f"% fewer packets, {LARGEST} nodes"),
            unit="%",
        ),
        Statement(
            says=f"it changes the mean time to delivery among {LARGEST:,} nodes by {{}}",
            short="change of delivery latency",
            item="Figure 7",
            keys=_readings(f"% that aggregation adds to delivery, {LARGEST} nodes"),
            unit="%",
        ),
        Statement(
            says="{} of the messages of 256 nodes depend on no other",
            short="messages without dependencies",
            item="Figure 6",
            keys=_readings("% of messages with 0 dependencies"),
            unit="%",
        ),
        Statement(
            says="{} deliveries are out of causal order",
            short="deliveries out of causal order",
            item="Guarantees",
            keys=_readings("deliveries out of causal order, with"),
        ),
    ),
    figures=("Packets saved", "Figure 6"),
    readings="Three readings of the start times, which print leaves open, and of the delay. A: "
    "starts uniform on (0, 500), delays N(100, 25). B: uniform on (0, 600), N(100, 50). C: a "
    "triangle on (0, 600), N(100, 25).",
)

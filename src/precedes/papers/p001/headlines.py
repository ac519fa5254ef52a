"""What Rodrigues et al. 2018 are read for."""

from typing import Final

from precedes.papers.headlines import Headlines, Statement
from precedes.papers.p001.experiments import SIZES

LARGEST: Final = SIZES[-1]
HOW: Final = {"without bundles": "NO-AGGR", "bundled": "SMALL2"}

HEADLINES: Final = Headlines(
    statements=(
        *(
            Statement(
                says=f"when each of {LARGEST:,} processes broadcasts once, {{}} packets are sent "
                f"{how} ({case})",
                short=f"packets, {how}",
                item="Table 4, FF",
                keys={"": f"{case}, {LARGEST} processes"},
            )
            for how, case in HOW.items()
        ),
        *(
            Statement(
                says=f"that takes {{}} units of time {how}",
                short=f"units of time, {how}",
                item="Table 3, FF",
                keys={"": f"{case}, {LARGEST} processes"},
            )
            for how, case in HOW.items()
        ),
        Statement(
            says="bundles are faster from {} processes on",
            short="processes from which bundles are faster",
            item="Section 6.3",
            keys={
                case: f"least number of processes for which {case} is faster"
                for case in ("SMALL2", "BIG2")
            },
        ),
        Statement(
            says=f"with log2(n) - 1 crashes {LARGEST:,} processes take {{}} units with bundles",
            short="units of time, bundled, with crashes",
            item="Table 5",
            keys={"": f"SMALL2, {LARGEST} processes"},
        ),
    ),
    figures=("Figure 3, messages", "Figure 3, latency"),
    readings="Time is in the paper's units. NO-AGGR bundles nothing; SMALL and BIG have "
    "messages of 24 and of 500 bytes, which wait up to 2 or 10 units for others to share a packet.",
)

"""What Wilhelm et al. 2023 are read for."""

from typing import Final

from precedes.papers.headlines import Headlines, Statement
from precedes.papers.p002.experiments import LOADS, TARGETS

BELLS: Final = ("one bell", "two bells")

HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says="under a load that comes and goes, {} messages are out of order with a clock "
            "that follows it",
            short="out of order, clock that follows",
            item="Section V-B1",
            keys={load: f"messages out of order, dcs, {load}" for load in BELLS},
        ),
        Statement(
            says="and {} with a fixed clock of the same mean size",
            short="out of order, fixed clock",
            item="Section V-B1",
            keys={load: f"messages out of order, fixed, {load}" for load in BELLS},
        ),
        Statement(
            says="under a random load it has {} times fewer of them than a fixed clock",
            short="times fewer, random load",
            item="Section V-B2",
            keys={
                "clocks of the printed size": "times fewer messages out of order, dcs, random load",
                "target of the bells": "times fewer messages out of order, dcs with the target of "
                "the bells, random load",
            },
        ),
        Statement(
            says="for the same share of errors, twice the load takes a clock more than {} times "
            "as large",
            short="growth of the least clock",
            item="Figure 5",
            keys={
                f"{load:g}/s, share {TARGETS[0]:g}": "growth of the least clock to "
                f"{load:g}/s at {TARGETS[0]:g}"
                for load in LOADS[1:]
            },
        ),
        Statement(
            says="{} deliveries are missing, repeated or of nothing",
            short="deliveries missing or repeated",
            item="Theorem 3",
            keys={"components of 50": "everything is delivered once, components of 50"},
        ),
    ),
    figures=("Figure 5", "Figure 7"),
)

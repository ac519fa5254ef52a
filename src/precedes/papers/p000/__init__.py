"""de Araujo et al. 2018: causal broadcast over the trees of a virtual hypercube, with aggregation.

Tables 1 to 3 and the numbers stated with Figures 1 and 6 to 11. "Poisson with interval 1000" for
the times of the broadcasts is ambiguous, and no reading of it with the printed standard deviation
of the delay, 25, gives Table 1. Two readings are reported throughout: A, starts uniform on
(0, 500), the printed 25; B, starts uniform on (0, 600) and a standard deviation of 50. Figures
without a reading in the key are those of A.
"""

from typing import Final

from precedes.papers.bibliography import Reference

PAPER: Final = "000"
REFERENCE: Final = Reference(
    authors=(
        "de Araujo, João Paulo",
        "Arantes, Luciana",
        "Duarte Júnior, Elias P.",
        "Rodrigues, Luiz A.",
        "Sens, Pierre",
    ),
    title="A Communication-Efficient Causal Broadcast Protocol",
    short_title="Communication-efficient causal broadcast",
    year=2018,
    venue="ICPP 2018, 47th International Conference on Parallel Processing, Eugene, Oregon",
    protocols=("vcube",),
    hal="hal-01924741",
)

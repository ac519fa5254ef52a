"""de Araujo et al. 2018: causal broadcast over the trees of a virtual hypercube, with aggregation.

Tables 1 to 3, Figures 1 and 6 to 11, what the text says with them, and the guarantees. The times of
the broadcasts, "a Poisson distribution with interval rate 1000", leave hardly anything to aggregate
if they are taken by the letter, and no law that was tried gives all that is printed. Three readings
are judged on every table and figure: A, starts uniform on (0, 500) and the printed standard
deviation of the delay, 25; B, uniform on (0, 600) and a standard deviation of 50; C, bell-shaped as
a Poisson law is, a triangle on (0, 600), and the printed 25. A and B were chosen by Table 1, C by
Table 3 and Figure 6.
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

"""Wilhelm et al. 2020: causal broadcast for mobile hosts, on a radio that they do not describe.

Bandwidth, medium access, tree and spacing of stations are not published. Everything of section V is
judged on two radios, ALOHA at 6 Mb/s and carrier sense at 1 Mb/s, and what speaks of TCP with two
readings of its time-outs; a curve over bandwidth shows what hangs on it.
"""

from typing import Final

from precedes.papers.bibliography import Reference

PAPER: Final = "004"
REFERENCE: Final = Reference(
    authors=("Wilhelm, Daniel", "Arantes, Luciana", "Sens, Pierre"),
    title="A scalable causal broadcast that tolerates dynamics of mobile networks",
    short_title="Dynamics of mobile networks",
    year=2020,
    venue="Technical report, Sorbonne University",
    protocols=("mobile",),
    hal="hal-02652082v3",
)

"""Wilhelm et al. 2020: causal broadcast for mobile hosts, on a radio that they do not describe.

Bandwidth, medium access, tree and spacing of stations are not published. ``RADIO`` names the
choice made here, the same for all experiments, and the curve over bandwidth shows what hangs on
it. Where figures differ, that stays the reason that is known.
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

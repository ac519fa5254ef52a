"""Wilhelm et al. 2023: a probabilistic Dynamic Clock Set to capture message causality.

The least clock for a load (Fig. 5), clocks that follow bells and a random load beside fixed ones of
the same mean size (Figs 6 to 9), rebalancing of components (Fig. 10), what rounds cost and whether
everything is delivered; beside them the bytes of messages with the hash detector on top.
"""

from typing import Final

from precedes.papers.bibliography import Reference

PAPER: Final = "002"
REFERENCE: Final = Reference(
    authors=("Wilhelm, Daniel", "Arantes, Luciana", "Sens, Pierre"),
    title="A probabilistic Dynamic Clock Set to capture message causality",
    short_title="Dynamic Clock Set",
    year=2023,
    venue="Preprint",
    protocols=("dcs",),
    hal="hal-03984499",
)

"""Rodrigues et al. 2018: best-effort broadcast on VCube trees, bundled where trees overlap.

Tables 2 to 5 cell by cell, Figures 3 and 4, and what tests that share the port of the broadcasts
bring about. One unit of the paper's time is a millisecond here. What its simulator leaves open is
named in ``NETWORK`` and ``CRASH_SPAN_S`` of the experiments and ``REACTION_MS`` of the metrics.
"""

from typing import Final

from precedes.papers.bibliography import Reference

PAPER: Final = "001"
REFERENCE: Final = Reference(
    authors=(
        "Rodrigues, Luiz A.",
        "Duarte Júnior, Elias P.",
        "de Araujo, João Paulo",
        "Arantes, Luciana",
        "Sens, Pierre",
    ),
    title="Bundling Messages to Reduce the Cost of Tree-Based Broadcast Algorithms",
    short_title="Bundling messages",
    year=2018,
    venue="LADC 2018, 8th Latin-American Symposium on Dependable Computing, Foz do Iguaçu",
    protocols=("bundled",),
    hal="hal-01959395",
    doi="10.1109/LADC.2018.00022",
)

"""What "Improving accuracy" is read for."""

from typing import Final

from precedes.papers.headlines import Headlines, Statement
from precedes.papers.p003.experiments import NODES, READINGS, TABLE_2_RUNS


def _senders(key: str) -> dict[str, str]:
    names = {"periodic": "periodic", "poisson": "Poisson"}
    return {f"{names[name]} senders": key.format(name) for name in READINGS}


HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says="of 100,000 messages, {} are out of causal order with the clock alone",
            short="out of order, clock alone",
            item="Table 1",
            keys=_senders("out of order, detector none, {} senders, messages"),
        ),
        Statement(
            says="with the hash detector {} are",
            short="out of order, hash detector",
            item="Table 1",
            keys=_senders("out of order, hash, {} senders, messages"),
        ),
        Statement(
            says="{} of those out of order are noticed by the detector of Mostefaoui and Weiss",
            short="noticed by Mostefaoui and Weiss",
            item="Table 1",
            keys=_senders(
                "of those out of order, detected by Mostefaoui and Weiss, %, {} senders, messages"
            ),
            unit="%",
        ),
        Statement(
            says=f"among {NODES[-1]:,} processes, {{}} in 10,000 deliveries ask for a message",
            short="requests in 10,000 deliveries",
            item="Table 2",
            keys={
                whose: f"requests, 1e-4 of deliveries, {NODES[-1]} processes, {whose}"
                for whose in TABLE_2_RUNS.values()
            },
        ),
    ),
    figures=("Requests by processes", "Errors over load, 200 nodes"),
)

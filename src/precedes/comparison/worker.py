"""A process that carries out runs: an order a line from its input, an outcome a line back."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

from precedes.pipeline.execute import run_orders
from precedes.stores import Address


def main(directory: str, here: str, sharers: int) -> None:
    """Do what the input asks for until it ends, as it does when its owner ends."""
    # Ctrl-C is for the owner: an interrupt here comes from a run itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = sys.stdout
    sys.stdout = sys.stderr  # a protocol that prints does not answer
    for order in sys.stdin:
        for outcome in run_orders(
            [order], directory=Address.of(directory), here=Path(here), sharers=sharers
        ):
            print(json.dumps(outcome), file=answers, flush=True)

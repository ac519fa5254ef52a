"""A process that carries out runs: an order a line from its input, an outcome a line back."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from precedes.compiled.tiers import VARIABLE
from precedes.pipeline.execute import run_orders
from precedes.sim.switch import COMPILATION_CPU_S
from precedes.stores import Address


def main(directory: str, here: str, sharers: int) -> None:
    """Do what the input asks for until it ends, as it does when its owner ends."""
    # Ctrl-C is for the owner: an interrupt here comes from a run itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = sys.stdout
    sys.stdout = sys.stderr  # a protocol that prints does not answer
    is_chosen = bool(os.environ.get(VARIABLE))
    for order in sys.stdin:
        if not is_chosen:
            # Runs that would take longer than a compiler wait for it, and leave it the processor.
            ahead_s = json.loads(order)["ahead_s"]
            os.environ[VARIABLE] = "compiled" if ahead_s > COMPILATION_CPU_S else "auto"
        for outcome in run_orders(
            [order], directory=Address.of(directory), here=Path(here), sharers=sharers
        ):
            print(json.dumps(outcome), file=answers, flush=True)

"""Replay a recorded editing session of several authors, and audit the run.

    python examples/replay_editing_trace.py [FILE]

FILE is an editing trace as in github.com/josephg/editing-traces (`.json` or `.json.gz`): the
changes with the changes that their authors had seen. A node broadcasts an event once it has
delivered those that its author had seen, so the causal order of the run is that of the document's
history. Without FILE a tiny history of three authors is replayed.
"""

import json
import sys
import tempfile
from pathlib import Path

from precedes import Scenario, load, simulate
from precedes.audit import audit

# Author 0 begins; 1 and 2 each reply to what they have seen; 0 merges both, 1 writes last.
TINY = {
    "txns": [
        {"agent": 0, "parents": []},
        {"agent": 1, "parents": [0]},
        {"agent": 2, "parents": [0]},
        {"agent": 2, "parents": [2]},
        {"agent": 0, "parents": [1, 3]},
        {"agent": 1, "parents": [4]},
    ]
}


def main(arguments: list[str]) -> None:
    with tempfile.TemporaryDirectory() as directory:
        graph = Path(directory) / "tiny.json"
        graph.write_text(json.dumps(TINY))
        if arguments:
            graph = Path(arguments[0])
        for protocol in ("vector", "unordered"):
            trace = Path(directory) / f"{protocol}.parquet"
            scenario = Scenario(
                protocol=protocol, nodes=3, workload=f"replay:{graph}", delay="exponential:100"
            )
            simulate(scenario, trace=trace)
            report = audit(load(trace)[0])
            print(f"{protocol}: {report.verdict}, {report.deliveries} deliveries")
            for witness in report.witnesses[:1]:
                print(f"  {witness.sentence}")


if __name__ == "__main__":
    main(sys.argv[1:])

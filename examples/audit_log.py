"""Audit a log of your own: write JSON lines, plant a violation, and read its explanation.

    python examples/audit_log.py

A small shop: an order is placed, paid and shipped by three services, and a fourth, the customer's
mailbox, receives everything. Each service logs its broadcasts and deliveries, in its own order;
the logs of single services are simply joined.
"""

import json
import tempfile
from pathlib import Path

from precedes import load
from precedes.audit import audit

LOGS = {
    "orders": [("broadcast", "order placed"), ("deliver", "paid"), ("deliver", "shipped")],
    "billing": [("deliver", "order placed"), ("broadcast", "paid"), ("deliver", "shipped")],
    "store": [("deliver", "order placed"), ("deliver", "paid"), ("broadcast", "shipped")],
    "mailbox": [("deliver", "order placed"), ("deliver", "paid"), ("deliver", "shipped")],
}


def verdict(logs: dict[str, list[tuple[str, str]]]) -> str:
    """The audit of these logs, as text."""
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "shop.jsonl"
        with path.open("w") as file:
            for node, events in logs.items():
                for kind, message in events:
                    line = {"node": node, "kind": kind, "message": message}
                    file.write(json.dumps(line) + "\n")
        report = audit(load(path)[0])
    findings = [f"  {witness.sentence}" for witness in report.witnesses]
    return "\n".join([f"{report.verdict} ({report.deliveries} deliveries)", *findings])


def main() -> None:
    print("as it should be:", verdict(LOGS))
    swapped = [LOGS["mailbox"][0], LOGS["mailbox"][2], LOGS["mailbox"][1]]
    print("with two events swapped:", verdict({**LOGS, "mailbox": swapped}))


if __name__ == "__main__":
    main()

"""What Wilhelm et al. 2020 print, section by section; seconds, messages, shares."""

from __future__ import annotations

from typing import Any, Final

PUBLISHED: Final[dict[str, Any]] = {
    # V-A, 70 hosts that stand, one message every 12.5 s each.
    "Section V-A, 5.6 per s": {
        "mobile": {
            "delay_s": 0.20,
            "early_below": 0.5,
            "messages_per_delivery": 0.4,
            "collisions": 0.10,
        },
        "flooding": {
            "delay_s": 2.0,
            "early_below": 5.0,
            "messages_per_delivery": 1.58,
            "collisions": 0.05,
        },
    },
    # V-A, the highest load.
    "Section V-A, 35 per s": {
        "delay_s": 0.31,
        "stored": 35.0,
        "early": 6.0,
        "sent_per_s": 700.0,
        "bytes_per_s": 4_300_000.0,
    },
    # V-B, hosts walk at 1.38 m/s, one message every 2.8 s each.
    "Section V-B": {
        "delay_s": 0.3,
        "penalty_s": 0.05,
        "collisions": [0.075, 0.085],
        "buffers": [0.1, 0.3],
    },
    # V-C, a host of station 3 fails every 30 s, from 15 s on, each for a second longer.
    "Section V-C": {"lengths_s": [3.0, 4.0, 5.0]},
    "Section V-D": {"control": "linear in the hosts of the cell"},
}

"""What de Araujo et al. 2018 print."""

from __future__ import annotations

from typing import Any, Final

PUBLISHED: Final[dict[str, Any]] = {
    # Nodes: packets without and with aggregation, % fewer packets, % of packets aggregated.
    "Table 1": {
        16: [240, 232, 3.33, 3.02],
        32: [992, 919, 7.36, 5.77],
        64: [4032, 3513, 12.87, 9.05],
        128: [16256, 13759, 15.36, 11.04],
        256: [65280, 49262, 24.54, 15.41],
        512: [261632, 191528, 26.79, 16.70],
        1024: [1047552, 745943, 28.79, 19.14],
    },
    # Messages in a packet: % of all packets, 256 nodes.
    "Table 2": {"1": 84.59, "2": 9.16, "3": 3.12, "4": 1.26, "5": 0.66, "over 5": 1.2},
    "largest packet": 15,  # section 5.1, 256 nodes
    # Bytes of a packet: % of packets as printed under "No Aggr." and "Aggr.", 256 nodes.
    "Table 3": {
        "up to 100": [52.66, 63.67],
        "101 to 200": [31.28, 30.30],
        "201 to 300": [7.62, 6.03],
        "301 to 400": [3.91, 0.00],
        "over 400": [4.54, 0.00],
    },
    # % of messages with so many causal dependencies, 256 nodes; the largest number of them.
    "Figure 6": {"0": 27.0, "1 to 4": 28.5, "5 to 9": 18.4, "over 12": 23.0, "most": 54},
    "Figure 7": {
        "reception, 1024 nodes over 8, with": 2.1,
        "reception, 1024 nodes over 8, without": 2.2,
        "reception, 256": 8.1,  # % that aggregation adds
        "reception, 1024": -7.4,
        "delivery, 1024": -12.2,
        "delivery, up to 512": 3.2,  # the largest difference in %
        "held, 16": -5.0,  # % that aggregation adds to the time messages are held
        "held, 1024": -53.4,
        "queue, 1024": 53.4,  # % longer that packets wait to be sent without aggregation
    },
    # % that aggregation adds, over messages in packets of two.
    "Figure 8": {"aggregated packets, 8": 0, "reception": 13.6, "held, 64": -74, "held, 512": -59},
    # Nodes of 1024 that buffered at most 50, and over 250 messages at some time.
    "Figure 9": {
        "up to 50, with": 569,
        "up to 50, without": 256,  # fewer than a quarter of the nodes
        "over 250, with": 24,
        "over 250, without": 212,
    },
    # % of 1024 nodes whose largest packet has 7 to 11 (8 to 12) messages; the largest of all.
    "Figure 10": {"50 bytes, 7 to 11": 95.5, "50 bytes, largest": 14, "5 bytes, 8 to 12": 81.3},
    # % fewer with one tree than with a tree for each source.
    "Figure 11": {"aggregations, 32": 86.0, "delayed messages, 128": 84.0},
}

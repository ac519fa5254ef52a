"""de Araujo et al. 2018: causal broadcast over the trees of a virtual hypercube, with aggregation.

Tables 1 to 3, Figures 1 and 6 to 11, what the text says with them, and the guarantees. The times of
the broadcasts, "a Poisson distribution with interval rate 1000", leave hardly anything to aggregate
if taken literally, and no law that was tried gives all published values. Three readings
are judged on every table and figure: A, starts uniform on (0, 500) and the published standard
deviation of the delay, 25; B, uniform on (0, 600) and a standard deviation of 50; C, bell-shaped as
a Poisson law is, a triangle on (0, 600), and the published 25. A and B were fitted to Table 1, C to
Table 3 and Figure 6.
"""

from typing import Any, Final

from precedes_papers.registry import Reference

PAPER: Final = "000"
REFERENCE: Final = Reference(
    authors=(
        "de Araujo, João Paulo",
        "Arantes, Luciana",
        "Duarte Júnior, Elias P.",
        "Rodrigues, Luiz A.",
        "Sens, Pierre",
    ),
    title="A Communication-Efficient Causal Broadcast Protocol",
    short_title="Communication-efficient causal broadcast",
    year=2018,
    venue="ICPP 2018, 47th International Conference on Parallel Processing, Eugene, Oregon",
    protocols=("vcube",),
    hal="hal-01924741",
)

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
    # The third column: % of the packets with two messages or more.
    "Table 2, aggregated": {"2": 59.46, "3": 20.25, "4": 8.18, "5": 4.31, "over 5": 7.8},
    # Section 5.1: messages in the largest packet, how many packets have as many, and % of the
    # aggregated packets with two or three; 256 nodes.
    "section 5.1": {"largest packet": 15, "packets of 15": 4, "two or three": 79},
    # Bytes of a packet: % of packets as published under "No Aggr." and "Aggr.", 256 nodes.
    "Table 3": {
        "up to 100": [52.66, 63.67],
        "101 to 200": [31.28, 30.30],
        "201 to 300": [7.62, 6.03],
        "301 to 400": [3.91, 0.00],
        "over 400": [4.54, 0.00],
    },
    # Of the run in Table 3: % of packets with aggregation larger than any without, % of more than
    # 1,400 bytes, packets sent for want of room; bytes in all: fewer with aggregation.
    "section 5.2": {"larger": 8.45, "over 1400": 0.29, "cut": 117, "bytes": -1},
    # % of messages by the number of their causal dependencies, 256 nodes; the largest number; % by
    # which these vary without aggregation.
    "Figure 6": {
        "0": 27.0,
        "1 to 4": 28.5,
        "5 to 9": 18.4,
        "over 12": 23.0,
        "most": 54,
        "variation": 2.73,
    },
    "Figure 7": {
        # "Just 2.1 times higher" (2.2 without): an increase, since 1.7 hops become 5.0.
        "mean, with": 3.1,
        "mean, without": 3.2,
        # "Maximum increase of 3.9 and 4.1 times", taken for that of the slowest reception: an
        # increase as well, or how many times it takes as long.
        "slowest, increase, with": 4.9,
        "slowest, increase, without": 5.1,
        "slowest, times, with": 3.9,
        "slowest, times, without": 4.1,
        "reception, 256": 8.1,  # % that aggregation adds
        "reception, 1024": -7.4,
        "reception, up to 512": 1,  # it adds something
        "delivery, 1024": -12.2,
        "delivery, up to 512": [-3.2, 3.2],  # "varies up to 3.2 %"
        # % longer without aggregation: the time messages are held, which 5.3 calls queuing time,
        # and that packets wait to be sent, for which 53.4 is published a second time.
        "held, 16": 5.0,
        "held, 1024": 53.4,
        "held, between": [5.0, 53.4],
        "queue, 1024": 53.4,
        "wait, 1024": 50,  # "around 50 u.t.", as the difference in reception
    },
    # % that aggregation adds, over messages in packets of two; equal delivery is taken to
    # be what the paper calls no difference in Figure 7.
    "Figure 8": {
        "aggregated, 8": 0,
        "reception": 13.6,
        "held, 64": -74,
        "held, 512": -59,
        "delivery": [-3.2, 3.2],
    },
    # Nodes of 1024 that buffered at most 50, and over 250 messages at some time.
    "Figure 9": {
        "up to 50, with": 569,
        "up to 50, without": 256,  # fewer than a quarter of the nodes
        "over 250, with": 24,
        "over 250, without": 212,
    },
    # % of 1024 nodes whose largest packet has 7 to 11 (8 to 12) messages; the largest of all; nodes
    # that aggregate nothing; larger packets where messages are small.
    "Figure 10": {
        "50 bytes, 7 to 11": 95.5,
        "50 bytes, largest": 14,
        "5 bytes, 8 to 12": 81.3,
        "nodes apart": 0,
        "5 bytes over 50": 1,
    },
    # % fewer with one tree than with a tree for each source, at least; with one tree, from 512 to
    # 1024 nodes the aggregations decrease.
    "Figure 11": {"aggregations": 86.0, "delayed messages": 84.0, "from 512 to 1024": -1},
    # With one tree, messages are received the later the later they are broadcast, and later than
    # with a tree for each source.
    "Figure 1": {"last over first": 1, "one tree over many": 1},
    # "Such a postponement does not cause any extra delay in m's delivery".
    "section 4.3": {"added delay": 0},
}

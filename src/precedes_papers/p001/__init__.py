"""Rodrigues et al. 2018: best-effort broadcast on VCube trees, bundled where trees overlap.

Tables 2 to 5 cell by cell, Figures 3 and 4, and what tests that share the port of the broadcasts
bring about. One unit of the paper's time is a millisecond here. What its simulator leaves open is
named in ``NETWORK`` and ``CRASH_SPAN_S`` of the experiments and ``REACTION_MS`` of the metrics.
"""

from typing import Any, Final

from precedes_papers.registry import Reference

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

CASES: Final = ("NO-AGGR", "SMALL2", "BIG2", "SMALL10", "BIG10")


def _columns(*rows: tuple[float, ...]) -> dict[str, dict[int, float]]:
    """Rows of a table that begin with a number, as scenario -> that number -> cell."""
    return {case: {int(row[0]): row[1 + place] for row in rows} for place, case in enumerate(CASES)}


PUBLISHED: Final[dict[str, Any]] = {
    # By trees, 16 processes.
    "Table 2, latency": _columns(
        (1, 14.7, 24.7, 25.5, 88.7, 88.7),
        (2, 11.6, 24.7, 24.7, 88.7, 88.7),
        (4, 9.0, 24.7, 24.7, 88.7, 88.7),
        (8, 7.2, 24.7, 24.7, 88.7, 88.7),
        (16, 6.1, 24.7, 24.7, 88.7, 88.7),
    ),
    "Table 2, messages": _columns(
        (1, 480, 30, 168, 30, 162),
        (2, 480, 60, 188, 60, 190),
        (4, 480, 104, 192, 104, 192),
        (8, 480, 176, 192, 176, 192),
        (16, 480, 272, 304, 272, 304),
    ),
    # By processes, fault-free and with one crash.
    "Table 3, FF": _columns(
        (8, 6.5, 18.5, 18.5, 66.5, 66.5),
        (16, 8.7, 24.7, 24.7, 88.7, 88.7),
        (32, 11.2, 30.9, 30.1, 110.9, 110.9),
        (64, 17.6, 37.1, 36.2, 133.1, 133.1),
        (128, 30.3, 43.3, 42.6, 155.3, 155.3),
        (256, 55.8, 49.5, 50.4, 177.5, 177.5),
        (512, 106.9, 55.4, 63.8, 199.7, 199.7),
        (1024, 209.2, 58.4, 92.6, 214.4, 224.8),
    ),
    "Table 3, FY": _columns(
        (8, 12.8, 24.8, 24.8, 66.6, 66.6),
        (16, 15.4, 31.1, 31.1, 88.8, 88.8),
        (32, 18.4, 37.4, 36.5, 111.0, 111.0),
        (64, 23.3, 43.7, 42.7, 133.2, 133.2),
        (128, 35.0, 49.8, 48.8, 155.4, 155.6),
        (256, 66.2, 56.0, 56.9, 177.6, 177.8),
        (512, 125.8, 61.8, 72.7, 199.9, 200.2),
        (1024, 243.9, 67.8, 104.2, 222.3, 231.9),
    ),
    "Table 4, FF": _columns(
        (8, 112, 80, 80, 80, 80),
        (16, 480, 272, 304, 272, 304),
        (32, 1984, 800, 1024, 800, 1024),
        (64, 8064, 2240, 3584, 2240, 3520),
        (128, 32512, 6016, 11904, 6016, 12032),
        (256, 130560, 15104, 42240, 15104, 42240),
        (512, 523264, 39424, 155136, 40448, 155136),
        (1024, 2095104, 106496, 587776, 100352, 581632),
    ),
    "Table 4, FY": _columns(
        (8, 91, 67, 67, 59, 59),
        (16, 435, 247, 273, 235, 256),
        (32, 1889, 766, 981, 749, 952),
        (64, 7860, 2191, 3429, 2167, 3349),
        (128, 32079, 5947, 11635, 5917, 11742),
        (256, 129643, 15019, 41624, 14985, 41802),
        (512, 521350, 38639, 153280, 40032, 154020),
        (1024, 2091167, 105188, 580983, 100580, 576723),
    ),
    # Mean over ten drawings of log2(n) - 1 crashes.
    "Table 5": _columns(
        (8, 22.2, 32.3, 32.3, 72.5, 72.5),
        (16, 35.9, 50.8, 50.8, 109.5, 110.1),
        (32, 62.0, 80.7, 80.7, 154.3, 154.2),
        (64, 63.0, 84.8, 84.8, 176.2, 175.7),
        (128, 70.1, 89.8, 89.7, 196.1, 197.2),
        (256, 85.2, 90.6, 91.5, 212.0, 213.4),
        (512, 129.4, 96.3, 103.5, 233.3, 233.4),
        (1024, 247.0, 102.1, 129.4, 255.3, 267.6),
    ),
    # Half of the 95 % interval of each of these means.
    "Table 5, intervals": _columns(
        (8, 11.5, 10.6, 15.5, 6.2, 6.2),
        (16, 9.8, 10.1, 19.2, 10.8, 10.5),
        (32, 6.0, 5.9, 23.2, 5.9, 6.3),
        (64, 3.5, 3.6, 24.2, 3.8, 4.1),
        (128, 2.4, 2.7, 24.2, 3.0, 3.2),
        (256, 0.4, 0.2, 22.2, 0.3, 0.5),
        (512, 0.1, 0.1, 19.1, 0.0, 0.0),
        (1024, 0.3, 0.0, 14.7, 0.2, 0.3),
    ),
    # Section 3.1: the power of log2(n) that bounds the rounds until all know of a crash.
    "Rounds": {"power": 2},
    # Section 6.2: a tree for each process in place of one shared tree, in %.
    "Own trees": {"reduction at least": 100},
    # Section 6.3: bytes of headers, 40 for each packet, with 1,024 processes, in "Mb"; packets of a
    # broadcast without bundling; the number of processes below which it is faster.
    "Headers": {"NO-AGGR": 80, "SMALL2": 4},
    "Packets of a broadcast": {"NO-AGGR": 2046},
    "Crossover": 256,
    # Section 6.4, one crash: packets that each broadcast needs less; who finds it by a test (p0, p3
    # and p5).
    "One crash": {"packets less": 1, "testers": 3},
}

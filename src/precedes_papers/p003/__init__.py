"""Causal broadcast with probabilistic clocks and a hash error detector ("Improving accuracy").

Table 1 with and without the detectors, the rate of requests over the load (Fig. 1) and over the
group (Table 2), by either search, and the statements of the text about the detectors and causal
broadcast; in addition errors over load against a formula, and the behaviour of the published
protocol when the load rises or hashes are few.
"""

from typing import Any, Final

from precedes_papers.registry import Reference

PAPER: Final = "003"
# The text names neither authors nor year nor venue; what it cites last is of 2020.
REFERENCE: Final = Reference(
    authors=(),
    title="Improving accuracy of probabilistic-based causal broadcast",
    short_title="Improving accuracy",
    year=None,
    venue="",
    protocols=("hashed", "probabilistic"),
)

# Table 1: 200 processes, a clock of 50 entries, 100 broadcasts per second, 100,000 of them:
# messages delivered out of causal order, by error detector; the text on it: the number detected
# of those without one. Table 2: requests, in 1e-4 of deliveries, at 110 broadcasts per second, by
# processes. Figure 1 is a plot that the text does not reproduce; it says which way the rate goes:
# down as entries are added, up with the load. Of statements in prose, 1 and -1 are directions.
PUBLISHED: Final[dict[str, Any]] = {
    "Table 1": {"none": 507, "Mostefaoui and Weiss": 502, "hash": 0},
    "Section 6": {"detected by Mostefaoui and Weiss": 5},
    "Table 2": {500: 2.21, 1000: 6.80, 2000: 2.81, 3000: 6.14, 5000: 5.78},
    "Figure 1": {
        "direction with entries": -1,
        "direction with load": 1,
        "concurrent messages shown, with entries": 1,
        "requests, with concurrent messages that are not shown": 1,
    },
    # "Processes deliver messages exactly once by respecting the causal relation between them."
    "Section 2": {"out of order": 0, "twice": 0, "never": 0, "tagged in order": 1},
    # "probabilistic logical clocks, whose size does not depend on N", which "can still" err
    "Abstract": {"bytes, with processes": 0, "out of order with the clock alone": 1},
}

"""Causal broadcast with probabilistic clocks and a hash error detector ("Improving accuracy").

Table 1 with and without the detectors, the rate of requests over the load (Fig. 1) and over the
group (Table 2), by either search, and what is said of the detectors and of causal broadcast in the
text; beside them errors over load against a formula, and what becomes of the protocol as printed
when the load rises or hashes are few.
"""

from typing import Final

from precedes.papers.bibliography import Reference

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

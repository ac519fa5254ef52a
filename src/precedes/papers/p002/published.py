"""What Wilhelm et al. 2023 print."""

from __future__ import annotations

from typing import Any, Final

# Section V: messages out of causal order with the Dynamic Clock Set and with a probabilistic clock
# of the same mean size, in groups of 1,000. Figures 5 and 10 are plots; the text says that clocks
# grow with the load, faster than linearly, and with the accuracy; that errors rise after 50 s and
# fall when components are rebalanced. A round takes three messages to or from each process.
PUBLISHED: Final[dict[str, Any]] = {
    "Figure 5": {
        "probability": [1e-4, 5e-5, 1e-5, 5e-6, 1e-6],
        "entries as the load doubles, more than": 2.0,
    },
    "bell": {"dcs": 58, "fixed": 231, "entries": 260},
    "random": {"dcs": 45, "fixed": 305, "entries": 97},
    "Figure 10": {"change after 50 s": 1, "change after rebalancing": -1},
    "Rounds": {"messages for a process": 3},
}

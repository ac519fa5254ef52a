"""Wilhelm et al. 2023: a probabilistic Dynamic Clock Set to capture message causality.

The least clock for a load (Fig. 5), clocks that follow bells and a random load compared with fixed
ones of the same mean size (Figs 6 to 9), rebalancing of components (Fig. 10), the cost of
rounds, and whether everything is delivered; in addition message sizes with the hash detector.
"""

from typing import Any, Final

from precedes_papers.registry import Reference

PAPER: Final = "002"
REFERENCE: Final = Reference(
    authors=("Wilhelm, Daniel", "Arantes, Luciana", "Sens, Pierre"),
    title="A probabilistic Dynamic Clock Set to capture message causality",
    short_title="Dynamic Clock Set",
    year=2023,
    venue="Preprint",
    protocols=("dcs",),
    hal="hal-03984499",
)

# Section V: messages out of causal order with the Dynamic Clock Set and with a probabilistic clock
# of the same mean size, in groups of 1,000; each number is of one experiment. Figures 5 to 10 are
# plots without values in the text, which says in words what they show: that clocks grow with the
# load, faster than linearly, and with the accuracy; that they adapt to the load, and are small most
# of the time under the random one; that errors concentrate around the peaks of the load; that they
# rise after 50 s, fall at 70 s when components are rebalanced, and once more until 90 s. VII
# adds that the Dynamic Clock Set needs less memory under some loads.
#
# II: P(M, X, k) = (1 - (1 - 1/M)^(X k))^k, of X concurrent messages.
# IV-D, IV-E: a round takes three messages to or from each process. That their size is in O(M) and
# O(N) is not judged: here a hash of eight bytes stands for both. The loads of Figures 6 and 8 are
# input, and not judged either.
PUBLISHED: Final[dict[str, Any]] = {
    "Figure 5": {
        "probability": [1e-4, 5e-5, 1e-5, 5e-6, 1e-6],
        "entries as the load doubles, more than": 2.0,
        "increments": 2,
        "delay in s": 0.1,
    },
    "bell": {"dcs": 58, "fixed": 231, "entries": 260},
    "random": {"dcs": 45, "fixed": 305, "entries": 97, "times fewer": 6},
    "Section VII": {"errors of a larger fixed clock less those of dcs": 1},
    "Over time": {"size with the load": 1, "most of": 0.5, "errors near the peaks": 1},
    "Figure 10": {
        "change as senders shift, errors per second": 1,
        "change at the first look, errors per second": -1,
        "change at the second look, errors per second": -1,
    },
    "Theorem 1": 0,  # messages that are not less than one that follows from them
    "Rounds": {"messages for a process": 3},
}

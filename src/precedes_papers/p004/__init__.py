"""Wilhelm et al. 2020: causal broadcast for mobile hosts, on a radio that they do not describe.

Bandwidth, medium access, tree and spacing of stations are not published. Everything of section V is
judged on three radios, ALOHA at 6 Mb/s and carrier sense at 1 Mb/s without and with link
acknowledgements, and what depends on TCP with two readings of its time-outs. Curves show the effect
of the bandwidth and of the spacing of stations.
"""

from typing import Any, Final

from precedes_papers.registry import Reference

PAPER: Final = "004"
REFERENCE: Final = Reference(
    authors=("Wilhelm, Daniel", "Arantes, Luciana", "Sens, Pierre"),
    title="A scalable causal broadcast that tolerates dynamics of mobile networks",
    short_title="Dynamics of mobile networks",
    year=2020,
    venue="Technical report, Sorbonne University",
    protocols=("mobile",),
    hal="hal-02652082v3",
)

LOW_ITEM: Final = "Section V-A, 5.6 per s"
HIGH_ITEM: Final = "Section V-A, 35 per s"
# What is published, section by section; seconds, messages, shares. A statement in words that has no
# size is a direction: 1, more or longer.
PUBLISHED: Final[dict[str, Any]] = {
    # V-A, 70 hosts that stand, one message every 12.5 s each.
    LOW_ITEM: {
        "mobile": {
            "delay_s": 0.20,
            "early_below": 0.5,
            "messages_per_delivery": 0.4,
            "collisions": 0.10,
            "acks_per_s": 2.0,  # one every 500 ms
        },
        "flooding": {
            "delay_s": 2.0,
            "early_below": 5.0,
            "messages_per_delivery": 1.58,
            "collisions": 0.05,
        },
        # "70/7 = 10 messages per application message", and one with the paper's algorithm.
        "copies_stored": 10.0,
        "more": 1.0,
    },
    # V-A, the highest load.
    HIGH_ITEM: {
        "delay_s": 0.31,
        "stored": 35.0,
        "early": 6.0,
        "sent_per_s": 700.0,
        "bytes_per_s": 4_300_000.0,
        "connect_s": 75.0,
        "more": 1.0,
        "growth": 0.0,  # "our algorithm tolerates it"
    },
    # V-B, hosts walk at 1.38 m/s, one message every 2.8 s each.
    "Section V-B": {
        "delay_s": 0.3,
        "penalty_s": 0.05,
        "collisions": [0.075, 0.085],
        "buffers": [0.1, 0.3],
        "stored_dozens": 5.0,  # "a few dozen"
        "first_repeat_s": 1.0,  # most deliveries come before it
        "list_up_to": 200.0,
        "list_beyond_buffer": 0.0,  # "at most the number of messages stored" (V-D)
        "growth": 0.0,  # the latency "keeps stable"
        "as_standing": 1.0,
        "more": 1.0,
    },
    # V-C, a host of station 3 fails every 30 s, from 15 s on, each for a second longer.
    "Section V-C": {
        "lengths_s": [3.0, 4.0, 5.0],
        "outstanding_max": 400.0,
        "more": 1.0,
        # Figure 8b: a fault begins at 225 s, before what that of 195 s left behind is gone; and
        # another station stores more, too. Seconds.
        "not recovered": [195.0, 225.0],
        "elsewhere": [[165.0, 180.0], [225.0, 250.0]],
    },
    "Section V-D": {
        "usually": 0.5,  # more than half
        "steps": [1.0, 2.0],  # a cell of 10 hosts grows by 10, then by 20
        "bytes_of_others": 0.0,
    },
}

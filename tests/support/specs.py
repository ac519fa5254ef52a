"""Schedules on which a protocol and its specification must do the same."""

from precedes.testing import random_scenario

# How the two are set to do the same, and what of a random schedule the paper does not speak of.
# Protocol -> parameters of the compiled one and of the specification, changes of a schedule.
SPECS = {
    "vector": ({}, {}, {}),
    "vcube": ({"tolerant": False}, {}, {"faults": "no crashes"}),
    # An ACK is a record, which is larger than the reference that the compiled protocol sends.
    "bundled": ({}, {}, {"bandwidth_bytes_per_s": 0.0, "mtu_bytes": 0}),
    # Records of rounds are larger than compiled ones, so their size must not take time.
    "dcs": ({}, {}, {"faults": "no crashes", "bandwidth_bytes_per_s": 0.0}),
    # An answer is a record, larger than the compiled one's numbers, and is not cut.
    "hashed": (
        {"entries": 4, "search": "literal"},
        {"entries": 4},
        {"bandwidth_bytes_per_s": 0.0, "mtu_bytes": 0},
    ),
    "probabilistic": (SMALL := {"entries": 4, "detector": "mostefaoui"}, SMALL, {}),
}


def schedule(protocol, seed):
    """A random schedule for both: the compiled protocol's, and the specification's."""
    compiled, spec, changes = SPECS[protocol]
    scenario = random_scenario(protocol, seed)
    if changes.get("faults") == "no crashes":
        kept = tuple(fault for fault in scenario.faults if fault.kind != "crash")
        scenario = scenario.replace(faults=kept)
    scenario = scenario.replace(**{k: v for k, v in changes.items() if k != "faults"})
    other = scenario.replace(protocol=f"{protocol}.spec", parameters=spec)
    return scenario.replace(parameters=compiled), other

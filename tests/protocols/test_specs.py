"""Each protocol does what its specification does, event for event, and each page quotes it."""

import re

import pytest

from precedes import Scenario, simulate
from precedes.testing import check_same, random_scenario
from tests.support.places import ROOT

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
SEEDS = (*range(1, 16), *(pytest.param(seed, marks=pytest.mark.gate) for seed in range(16, 201)))


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


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("protocol", SPECS)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_compiled_protocol_does_what_its_specification_does(protocol, seed):
    check_same(*schedule(protocol, seed))


@pytest.mark.parametrize("protocol", SPECS)
def test_its_page_quotes_it(protocol):
    """A page shows parts of the specification, in their order and as they are."""
    source = (ROOT / f"src/precedes/protocols/{protocol}/spec.py").read_text()
    page = (ROOT / f"docs/protocols/{protocol}.md").read_text()
    at = 0
    quoted = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    assert quoted
    for text in quoted:
        assert text in source[at:], text
        at = source.index(text, at)


@pytest.mark.parametrize("protocol", sorted(SPECS.keys() - {"bundled"}))  # which acknowledges
def test_messages_have_the_size_of_the_compiled_ones(protocol):
    """Broadcasts are a second apart, so that nobody asks about anything."""
    compiled, spec, _ = SPECS[protocol]
    scenario = Scenario(protocol=protocol, nodes=5, messages=20, rate=1.0, delay="constant:1")
    other = scenario.replace(protocol=f"{protocol}.spec", parameters=spec)
    sent = [
        simulate(one, tier="interpreted").bytes_sent
        for one in (scenario.replace(parameters=compiled), other)
    ]
    assert sent[0] == sent[1] > 0

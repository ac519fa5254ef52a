"""Each protocol does what its specification does, event for event, and each page quotes it."""

import re

import pytest

from precedes import Scenario, simulate
from precedes.testing import check_same
from tests.support.places import ROOT
from tests.support.specs import SPECS, schedule

SEEDS = (*range(1, 16), *(pytest.param(seed, marks=pytest.mark.gate) for seed in range(16, 201)))


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

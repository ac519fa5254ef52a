"""A promise is kept only if the audit of every run says so."""

import pytest

from precedes.errors import InternalError
from precedes.papers.claims import DIFFERS, EQUAL, About
from precedes.papers.guarantees import AT_MOST_ONCE, CAUSAL_ORDER, EXACTLY_ONCE, kept
from precedes.pipeline.sweep import run_experiments
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment

ABOUT = About("900", "Guarantees", "causal order")


@pytest.mark.gate
def test_the_audit_of_traced_runs_judges_order(tmp_path):
    """Messages overtake one another, which one of the two does not mind."""
    base = Scenario(protocol="vector", nodes=8, messages=200, rate=200.0, delay="exponential:50")
    experiments = [
        Experiment(protocol, (base.replace(protocol=protocol),), trace=True)
        for protocol in ("vector", "unordered")
    ]
    results = run_experiments(experiments, tmp_path)
    assert kept(ABOUT, runs=results["vector"], against=CAUSAL_ORDER).verdict == EQUAL
    broken = kept(ABOUT, runs=results["unordered"], against=CAUSAL_ORDER)
    assert broken.verdict == DIFFERS
    assert broken.measured > 0


@pytest.mark.parametrize("against", [CAUSAL_ORDER, AT_MOST_ONCE, EXACTLY_ONCE])
def test_one_of_anything_against_it_in_one_run_breaks_it(against):
    names = {*CAUSAL_ORDER, *EXACTLY_ONCE}
    for broken in (None, *sorted(names)):
        counts = {name: int(name == broken) for name in names}
        fine = {"audit": {"deliveries": 9, **dict.fromkeys(names, 0)}}
        found = kept(ABOUT, runs=[fine, {"audit": {"deliveries": 9, **counts}}], against=against)
        assert found.verdict == (DIFFERS if broken in against else EQUAL)


@pytest.mark.parametrize("audit", [None, {"deliveries": 0, **dict.fromkeys(EXACTLY_ONCE, 0)}])
def test_nothing_is_said_of_runs_that_nobody_audited(audit):
    with pytest.raises(InternalError, match="without a trace, or without deliveries"):
        kept(ABOUT, runs=[{"audit": audit}], against=EXACTLY_ONCE)

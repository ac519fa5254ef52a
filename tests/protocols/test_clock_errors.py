"""Errors of probabilistic clocks and of their detectors, each as a variant of a specification.

A variant overrides one method of ``spec.py``, which has the lines of the paper.
"""

import functools

import pytest

from precedes import simulate
from precedes.model import EventKind
from precedes.sim import Scenario
from precedes.testing import check_scenario, observe, random_scenario
from tests.support import variants
from tests.support.convictions import assert_convicted, conviction

# Section 2 of the paper as printed: an entry of the sender is one below the message's.
PRINTED_DETECTOR = """
def looks_late(self, m):
    return any(self.V[x] == m.V[x] for x in self.f[m.source])
"""
# As vector clocks are merged; an entry that several processes increment then counts too little.
MAXIMUM = """
def increment(self, m):
    for x in self.f[m.source]:
        self.V[x] = max(self.V[x], m.V[x] + 1)
"""
COUNT = """
def extra(self):
    return {"counted": sum(self.V)}
"""
# Mistakes in `hashed`, with what each is convicted for.
HASHED = {
    "the clock alone decides": ("order", "def errorDetector(self, m):\n    return False\n"),
    "a message depends on its sender's last one alone": (
        "order",
        """
        def record(self, m):
            super().record(m)
            self.Dep_msg = {u for u in self.Dep_msg if u.p == self.me}
        """,
    ),
    "nobody is asked": ("lost", "def on_timer(self, m):\n    pass\n"),
    "a duplicate of what waits is kept": (
        "reference",
        """
        def on_app(self, m):
            if m.sequence <= self.count[m.source]:
                self.drop(m)
            else:
                self.Rec.append(m)
                self.wait_until()
        """,
    ),
}
# Of the first schedules those in which something goes wrong if it can; one hash: many requests.
SEEDS = (1, 6, 24)
SMALL = {"entries": 3, "hashes": 1}


def tagged(protocol):
    """The share of deliveries that the detector tags."""
    seen = observe(
        Scenario(
            protocol=protocol,
            nodes=15,
            messages=200,
            rate=100.0,
            parameters={"detector": "mostefaoui"},
        )
    )
    return len(seen.of(EventKind.TAG)) / seen.result.deliveries


def test_the_printed_detector_tags_nearly_everything(tmp_path):
    assert 0 < tagged("probabilistic.spec") < 0.2
    assert tagged(variants.write(tmp_path, "probabilistic", PRINTED_DETECTOR)) > 0.8


def counted(protocol):
    """The sum of all entries of all clocks, once everything is delivered."""
    scenario = Scenario(protocol=protocol, nodes=10, messages=50, parameters={"entries": 5})
    return simulate(scenario).extra["counted"]


def test_a_maximum_counts_less_than_was_delivered(tmp_path):
    """Each of 50 messages increments two entries at each of 10 processes."""
    assert counted(variants.write(tmp_path, "probabilistic", COUNT)) == 2 * 50 * 10
    assert counted(variants.write(tmp_path, "probabilistic", MAXIMUM + COUNT, "other")) < 1000


def trials(protocol):
    """The schedules, each as a function that judges the protocol on it."""
    for seed in SEEDS:
        scenario = random_scenario(protocol, seed).replace(parameters=SMALL)
        yield functools.partial(check_scenario, scenario)


@pytest.mark.parametrize("mistake", HASHED)
def test_a_mistake_in_hashed_is_convicted(tmp_path, mistake):
    reason, method = HASHED[mistake]
    assert_convicted(mistake, trials(variants.write(tmp_path, "hashed", method)), reason)


def test_the_specification_of_hashed_passes_the_same_schedules():
    assert conviction(trials("hashed.spec")) is None

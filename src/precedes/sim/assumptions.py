"""What a protocol assumes of the network, against what a scenario offers."""

from __future__ import annotations

from precedes import registry
from precedes.sim.scenario import Scenario


def outside(scenario: Scenario) -> list[str]:
    """The assumptions of the protocol that the scenario breaks."""
    assumes = registry.load(scenario.protocol).assumes
    drops = any(item.kind == "cut" and not item.holds for item in scenario.faults)
    broken = {
        "reliable": scenario.loss > 0 or drops,
        "unique": scenario.duplication > 0,
        "fifo": not scenario.fifo and not scenario.delay.startswith("constant"),
    }
    return sorted(name for name in assumes if broken[name])


def warnings(scenario: Scenario) -> list[str]:
    """One line for each broken assumption, for the terminal."""
    lost = {
        "reliable": "that no packet is lost: what follows a lost one is never delivered",
        "unique": "that no packet arrives twice: a repeated one is counted as another",
        "fifo": "that links keep the order of packets",
    }
    return [f"{scenario.protocol} assumes {lost[name]}" for name in outside(scenario)]

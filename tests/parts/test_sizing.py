"""The sizing formula: against measured points, and as a command."""

import re

import pytest

from precedes import Scenario, simulate
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.parts.sizing import error_rate, size
from precedes_papers.p003 import experiments
from tests.support.commands import output, parsed
from tests.support.places import ROOT

# Entries for a load and an error in a group of 2,000, and measured shares of errors, from an
# independent model of the protocol.
SIZES = {
    50: {1e-4: 26, 1e-5: 92, 1e-6: 297},
    100: {1e-4: 75, 1e-5: 254, 1e-6: 819},
    200: {1e-4: 214, 1e-5: 713, 1e-6: 2289},
}
MEASURED = {
    (25, 20): 1.7e-5,
    (50, 40): 3.8e-5,
    (100, 60): 1.31e-4,
    (100, 120): 2.9e-5,
    (200, 160): 1.8e-4,
}


@pytest.mark.parametrize("rate", SIZES)
def test_entries_for_a_load_and_an_error(rate):
    for error, entries in SIZES[rate].items():
        found = size(rate=rate, nodes=2000, error=error)
        assert abs(found.entries - entries) <= 1
        assert found.error <= error
        smaller = size(rate=rate, nodes=2000, entries=found.entries - 1)
        assert smaller.error > error


@pytest.mark.parametrize(("rate", "entries"), MEASURED)
def test_the_formula_is_within_its_accuracy_of_measured_points(rate, entries):
    expected = error_rate(rate=rate, entries=entries, per_process=2, nodes=2000)
    assert 0.6 < MEASURED[rate, entries] / expected < 1.1


def table():
    """The rows of the table in the documentation: numbers as they stand there."""
    lines = (ROOT / "docs" / "sizing.md").read_text().splitlines()
    rows = [line.strip("| ").split(" | ") for line in lines if re.match(r"\| \d", line)]
    return [tuple(float(cell.replace(",", "")) for cell in row) for row in rows]


def test_the_table_in_the_documentation():
    rows = table()
    assert len(rows) >= 8
    for rate, entries, nodes, per_process, formula, simulated, ratio in rows:
        found = size(
            rate=rate, nodes=int(nodes), entries=int(entries), per_process=int(per_process)
        )
        assert found.error == pytest.approx(formula, rel=0.01)
        assert simulated / formula == pytest.approx(ratio, abs=0.01)
        assert 1 / 1.5 < ratio < 1.5
        assert found.checked


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("row", [row for row in table() if row[4] > 1e-3])
def test_the_formula_against_simulations(row):
    """Points of the table with enough errors for short runs, over other seeds."""
    rate, entries, nodes, per_process, formula = row[:5]
    scenario = Scenario(
        protocol="probabilistic",
        nodes=int(nodes),
        messages=10_000,
        rate=rate,
        delay="normal:100:20",
        parameters={"entries": int(entries), "per_process": int(per_process)},
    )
    runs = [simulate(scenario.replace(seed=seed)) for seed in range(11, 14)]
    errors = sum(run.violations.deliveries for run in runs)
    assert 1 / 1.5 < errors / sum(run.deliveries for run in runs) / formula < 1.5


def test_how_many_messages_wait():
    """Of Table 1 without a detector: 7.4e-3 to 7.6e-3 of receptions find something missing."""
    found = size(rate=100, nodes=200, entries=50)
    assert found.held + found.error == pytest.approx(7.6e-3, rel=0.01)


def test_the_bytes_are_those_of_the_protocols():
    """Bytes that the simulator sends, without payload and packet header."""
    found = size(rate=100, nodes=40, entries=7)
    base = experiments.table_1("poisson", 1).replace(nodes=40, messages=2)
    overhead = base.payload_bytes + base.packet_bytes
    for protocol, wanted in (
        ("probabilistic", found.probabilistic_bytes),
        ("hashed", found.hashed_bytes),
        ("vector", found.vector_bytes),
    ):
        parameters = {} if protocol == "vector" else {"entries": 7}
        scenario = base.replace(protocol=protocol, parameters=parameters)
        result = simulate(scenario, tier="interpreted")
        assert result.bytes_sent == result.packets * (wanted + overhead)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"rate": 0}, "rate must be above 0"),
        ({"rate": float("nan")}, "rate must be above 0"),
        ({"rate": float("inf")}, "rate must be above 0"),
        ({"nodes": 1}, "nodes must be between"),
        ({"error": None}, "give `error` for a size"),
        ({"entries": 5}, "give `error` for a size"),
        ({"error": 0}, "share between 0 and 1"),
        ({"error": 2}, "share between 0 and 1"),
        ({"error": None, "entries": 1}, "entries must be between 2"),
        ({"per_process": 0}, "per_process must be"),
        ({"delay": "uniform:1:2"}, "the formula takes normal"),
        ({"delay": "normal:100"}, "the formula takes normal"),
        ({"delay": "normal:100:nan"}, "the formula takes normal"),
        ({"rate": 1e6, "error": 1e-9}, "no clock of up to"),
    ],
)
def test_nonsense_is_refused(changes, what):
    with pytest.raises(UserError, match=what) as caught:
        size(**{"rate": 100, "nodes": 200, "error": 1e-4, **changes})
    assert "\n" not in str(caught.value)


def test_the_command(capsys):
    found = parsed(capsys, "size", "--rate", "100", "--error", "1e-4", "--nodes", "2000", "--json")
    assert found["entries"] == 75
    assert found["checked"]
    text = output(capsys, "size", "--rate", "3000", "--entries", "50", "--nodes", "20")
    assert "this is outside" in text
    assert "use vector" in text
    assert main(["size", "--rate", "100", "--nodes", "2000"]) == 2
    assert capsys.readouterr().err.count("\n") == 1

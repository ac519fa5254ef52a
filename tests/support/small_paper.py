"""A paper that runs in a moment, for tests of what is around papers."""

from types import SimpleNamespace

from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes_papers.measured import measure
from precedes_papers.registry import Reference
from precedes_papers.rules import equal
from precedes_papers.shown import (
    Figure,
    Headlines,
    Published,
    Statement,
    Table,
    measured_series,
    published_series,
)

REFERENCE = Reference(
    authors=("Doe, Jane",),
    title="A paper",
    short_title="A paper",
    year=1999,
    venue="Somewhere",
    protocols=("vector",),
)


def paper_module(**changes) -> SimpleNamespace:
    """Exports of a small paper that keeps the contract, some of them changed; None: taken away."""
    module = SimpleNamespace()
    small = Scenario(protocol="vector", nodes=3, messages=10)

    def experiments(scale):
        seeds = range(1, 3 if scale == "quick" else 4)
        return [Experiment("table-1", tuple(small.replace(seed=seed) for seed in seeds))]

    def claims(results):
        measured = measure(lambda run: run["deliveries"], results["table-1"])
        about = "Table 1", "deliveries"
        return [equal(about, published=module.PUBLISHED["Table 1"][0], measured=measured)]

    def shown(results, claims):
        measured = measure(lambda run: run["latency"]["delivery_mean"], results["table-1"])
        lines = (
            measured_series("here", [(3.0, measured)]),
            published_series("paper", [(3.0, 9.0)]),
        )
        return [
            Table("Table 1", ("n", "published"), ((3, Published(module.PUBLISHED["Table 1"][0])),)),
            Figure("Figure 1", "t", "nodes", "ms", lines, alt="latency"),
        ]

    exports = {
        "REFERENCE": REFERENCE,
        "PUBLISHED": {"Table 1": [20, 1]},
        "FITTED": (),
        "experiments": experiments,
        "claims": claims,
        "HEADLINES": Headlines(
            statements=(
                Statement(
                    says="there are {} deliveries",
                    short="deliveries",
                    item="Table 1",
                    statement="deliveries",
                ),
            ),
            figures=("Figure 1",),
        ),
        "shown": shown,
    } | changes
    vars(module).update({name: value for name, value in exports.items() if value is not None})
    return module

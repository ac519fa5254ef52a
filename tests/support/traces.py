"""Questions to a trace of ``unordered``, which delivers what arrives when it arrives."""

import numpy as np
import pytest

from precedes.model import EventKind
from precedes.sim import Scenario
from precedes.sim.engine.rows import NODE, SEQUENCE, SOURCE, TIME_NS
from precedes.testing import observe
from tests.support.places import DATA


def run(protocol="unordered", *, packets=False, tier="auto", **fields):
    """A run with its trace."""
    scenario = Scenario(protocol=protocol, **fields)
    return observe(scenario, packets=packets, tier=tier)


def born_ns(seen):
    """Source and sequence -> time of the broadcast."""
    rows = seen.of(EventKind.BROADCAST)
    names = zip(rows[:, SOURCE].tolist(), rows[:, SEQUENCE].tolist(), strict=True)
    return dict(zip(names, rows[:, TIME_NS].tolist(), strict=True))


def travels(seen):
    """Every delivery: source, target, sequence, time of the broadcast, ns on the way."""
    born = born_ns(seen)
    rows = seen.of(EventKind.DELIVER)
    columns = [rows[:, i].tolist() for i in (SOURCE, NODE, SEQUENCE, TIME_NS)]
    return [
        (source, target, sequence, born[source, sequence], time_ns - born[source, sequence])
        for source, target, sequence, time_ns in zip(*columns, strict=True)
    ]


def delays_ms(seen):
    """Travel times of the packets of a run."""
    return np.array([travel[-1] for travel in travels(seen)]) / 1e6


def data(*parts):
    """A file of measurements next to the repository."""
    path = DATA.joinpath(*parts)
    if not path.is_file():
        pytest.skip(f"{path} is not here: it is part of the working tree, not of the package")
    return path

"""One small comparison for all tests of a process, with a protocol that keeps no order."""

import pytest

from precedes.comparison import carry_out_plan, plan

LOAD = {"nodes": 8, "rate": 200, "messages": 60, "delay": "lognormal:40:0.8", "seeds": 2}
NAMES = ["vector", "vcube", "unordered", "hashed"]


@pytest.fixture(scope="session")
def kept(tmp_path_factory, engine):
    """The directory of a comparison, and what came of it."""
    folder = tmp_path_factory.mktemp("compared")
    return folder, carry_out_plan(plan(protocols=NAMES, **LOAD), out=folder)

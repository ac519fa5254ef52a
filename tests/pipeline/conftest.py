"""One finished sweep for all the tests of a process."""

import pytest

from precedes.pipeline.sweep import run_sweep
from tests.support import runs


@pytest.fixture(scope="session")
def swept(spark, tmp_path_factory):
    """The directory of a finished sweep, and what the sweep returned."""
    directory = tmp_path_factory.mktemp("swept")
    done = run_sweep(runs.experiment(directory), directory / "out", session=spark)
    return directory / "out", done

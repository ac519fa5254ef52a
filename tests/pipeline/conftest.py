"""One Spark session and one finished sweep for all the tests of a process."""

import pytest

from precedes.pipeline.spark.session import open_session
from precedes.pipeline.sweep import run_sweep
from tests.support import runs


@pytest.fixture(scope="session")
def event_log(tmp_path_factory):
    """Where the session below notes what it does."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log, engine):
    """A session on two cores."""
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.dir": event_log.as_uri(),
        "spark.ui.enabled": "true",
        "spark.ui.port": "0",
    }
    with open_session(master="local[2]", settings=settings) as session:
        yield session


@pytest.fixture(scope="session")
def swept(spark, tmp_path_factory):
    """The directory of a finished sweep, and what the sweep returned."""
    directory = tmp_path_factory.mktemp("swept")
    done = run_sweep(runs.experiment(directory), directory / "out", session=spark)
    return directory / "out", done

"""One Spark session and one finished sweep for all the tests of a process."""

from pathlib import Path

import pytest

from precedes.pipeline.session import open_session
from precedes.pipeline.sweep import run_sweep
from tests.pipeline import samples

HERE = Path(__file__).parent


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
    }
    with open_session(master="local[2]", settings=settings) as session:
        yield session


@pytest.fixture(scope="session")
def swept(spark, tmp_path_factory):
    """The directory of a finished sweep, and what the sweep returned."""
    directory = tmp_path_factory.mktemp("swept")
    done = run_sweep(samples.experiment(directory), directory / "out", session=spark)
    return directory / "out", done


def pytest_collection_modifyitems(items):
    """Give all tests here to one process: a second session would cost twenty seconds of CPU."""
    for item in items:
        if item.path.parent == HERE:
            item.add_marker(pytest.mark.xdist_group("spark"))

"""Settings of every test: Hypothesis profiles, order, and how to run a failure again."""

import contextlib
import os
import tempfile

import pytest
from hypothesis import is_hypothesis_test, settings

from tests.support import compilers, s3, schedule, warm
from tests.support.swarm import plugin

# Compiled from the first event on, so that what is judged does not depend on a compiler's speed;
# the tests of the tiers themselves say otherwise.
os.environ["PRECEDES_TIER"] = "compiled"

# The suite draws the same examples in every run and keeps no database of failures, so that two runs
# of one tree agree; `random` explores, and prints the seed of what it finds. No deadline: the first
# example may have to wait for a compilation.
settings.register_profile("suite", max_examples=50, deadline=None, derandomize=True)
settings.register_profile(
    "random", max_examples=500, deadline=None, derandomize=False, print_blob=True
)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "suite")
settings.load_profile(PROFILE)


# Compilers survive the processes that start them; those of these tests have this in common.
RUN = os.environ.setdefault("PRECEDES_TEST_RUN", str(os.getpid()))


def pytest_sessionfinish(session):
    """End compilers that a test has left behind, at the end of all."""
    if not hasattr(session.config, "workerinput"):
        compilers.end_all("PRECEDES_TEST_RUN", RUN)


def pytest_addoption(parser):
    """The option of test_transcripts.py, and those of the swarm."""
    text = "rewrite tests/transcripts; read the difference before you commit it"
    parser.addoption("--rewrite-transcripts", action="store_true", help=text)
    plugin.add_options(parser)


def pytest_configure(config):
    """Have what the swarm runs counted, by the process that prints."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(plugin.Swarm(config.option))


@pytest.fixture
def empty_cache(tmp_path, tmp_path_factory, monkeypatch):
    """A cache of the test's own, with nothing in it; compilers for it end with the test."""
    root = tmp_path / "cache"
    monkeypatch.setenv("PRECEDES_CACHE", str(root))
    # Where code goes that the cache cannot keep.
    monkeypatch.setenv("TMPDIR", str(tmp_path_factory.mktemp("spare")))
    monkeypatch.setattr(tempfile, "tempdir", None)
    yield root
    compilers.end_all("PRECEDES_CACHE", root)


@pytest.fixture(scope="session")
def engine():
    """The compiled engine of every protocol, for tests that would otherwise each wait for it."""
    warm.up()


@pytest.fixture(scope="session")
def live():
    """The compiled steps of live members, for tests whose processes would each build them."""
    warm.up_live()


@pytest.fixture(scope="session")
def event_log(tmp_path_factory):
    """Directory of the event log of ``spark``."""
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="session")
def spark(event_log, engine):
    """The Spark session of this process, on two cores."""
    from precedes.pipeline.spark.session import QUICK_COMPILER, open_session

    settings = {
        "spark.driver.extraJavaOptions": QUICK_COMPILER,
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
def s3_endpoint():
    """An S3 of this process's own."""
    with s3.serve() as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def chromium():
    """A browser of this process's own."""
    from tests.support.browser import NoBrowser, start

    with contextlib.ExitStack() as stack:
        try:
            driver = stack.enter_context(start())
        except NoBrowser as error:
            # Python alone is enough for `make test`; the gate must not pass without these tests.
            (pytest.fail if os.environ.get("CI") else pytest.skip)(str(error))
        yield driver


@pytest.fixture
def browser(chromium, request):
    """The browser; a test that fails leaves a picture of its screen."""
    from tests.support.browser import keep_picture

    yield chromium
    if getattr(request.node, "has_failed", False):
        print("screenshot:", keep_picture(chromium, request.node.nodeid))


@pytest.fixture
def bucket(s3_endpoint, monkeypatch):
    """The URL of an empty bucket, which this process and those it starts can use."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name, value in s3.settings(s3_endpoint).items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.make_bucket(s3_endpoint)}"


def pytest_collection_modifyitems(items):
    """Put long tests first; the order of the others stays."""
    items.sort(key=lambda item: schedule.place(item.nodeid))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Keep tests together that share what takes long to make."""
    config.option.loadscopereorder = False  # the order is that of schedule.FIRST
    return schedule.Scheduling(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Add the seed of a failed property, as the command that runs it again; note who failed.

    Hypothesis itself prints it only when a failure does not repeat at once. Setting a seed for
    the whole session would say it more simply, but turns off the replay of earlier failures.
    """
    report = yield
    item.has_failed = getattr(item, "has_failed", False) or report.failed
    test = getattr(item, "obj", None)
    if report.failed and is_hypothesis_test(test):
        seed = getattr(test, "_hypothesis_internal_use_generated_seed", None)
        seed = item.config.option.hypothesis_seed if seed is None else seed
        option = "" if seed is None else f" --hypothesis-seed={seed}"
        command = f"HYPOTHESIS_PROFILE={PROFILE} pytest '{item.nodeid}'{option}"
        report.sections.append(("Run it again", command))
    return report


def pytest_terminal_summary(terminalreporter):
    """Say what was left out for want of a browser: skips alone are easily missed."""
    reasons = [one.longrepr[2] for one in terminalreporter.getreports("skipped")]
    unseen = [reason for reason in reasons if "no browser" in reason]
    if unseen:
        why = unseen[0].removeprefix("Skipped: ")
        terminalreporter.write_line(f"{len(unseen)} tests of pages were skipped: {why}")

"""Options of pytest for the swarm, its budget of time, and the table at its end."""

import math
import time

import pytest

from tests.support import seeds
from tests.support.swarm.counts import Counts

FILE = "tests/swarm/test_schedules.py"
COUNTED, TAKEN = "swarm counts", "swarm turn"
DEADLINE = "swarm_deadline_s"


def add_options(parser):
    """The options that say which schedules test_schedules.py runs."""
    group = parser.getgroup("swarm", f"random schedules, {FILE} with -m swarm")
    group.addoption("--swarm-block", metavar="NAME", help="a block of schedules that NAME draws")
    group.addoption(
        "--swarm-seconds",
        type=float,
        default=200.0,
        metavar="S",
        help="begin no turn of a block S seconds after the start (200)",
    )
    group.addoption("--swarm-turns", metavar="0-41,43", help="these turns of a block, all of them")
    group.addoption("--swarm-protocol", metavar="FILE", help="a protocol of your own, and no other")


class Swarm:
    """Sums up what tests have counted, in whichever process they ran.

    Tests say what they have run by properties of their reports, which reach this process also
    from a worker that dies later.
    """

    def __init__(self, options):
        self.options = options
        self.counts = Counts()
        self.turns = set()
        if options.swarm_block is not None and options.swarm_turns is None:
            options.swarm_deadline_s = time.monotonic() + options.swarm_seconds

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """Tell a worker when the time is up: this clock is the same in all processes."""
        node.workerinput[DEADLINE] = deadline_s(node.config)

    def pytest_runtest_logreport(self, report):
        """Take what a test has counted, passed or failed."""
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == COUNTED:
                self.counts.merge(value)
            elif name == TAKEN:
                self.turns.add(value)

    def pytest_terminal_summary(self, terminalreporter):
        """The table, and the one command that runs the same again."""
        if not self.counts.total():
            return
        terminalreporter.section("schedules")
        for line in self.counts.lines():
            terminalreporter.line(line)
        terminalreporter.line(f"the same again: {self.command()}")

    def command(self):
        """The command that repeats exactly these schedules."""
        protocol = self.options.swarm_protocol
        chosen = f" --swarm-protocol {protocol}" if protocol else ""
        if self.options.swarm_block is None:
            variables = f"PRECEDES_SWARM={seeds.COUNT} PRECEDES_SWARM_SEED={seeds.FIRST}"
            return f"{variables} make swarm PYTEST_ARGS='{FILE}{chosen}'"
        block = f"--swarm-block {self.options.swarm_block}"
        turns = f"--swarm-turns {seeds.text_of(self.turns)}"
        return f"make swarm PYTEST_ARGS='{FILE} {block} {turns}{chosen}'"


def deadline_s(config):
    """The time after which no turn begins, by ``time.monotonic``."""
    given = getattr(config, "workerinput", vars(config.option))
    return given.get(DEADLINE, math.inf)


def skip_if_late(config):
    """Skip a test that would begin after the time is up."""
    if time.monotonic() > deadline_s(config):
        pytest.skip("the time of the block is up")

"""The runner of the swarm: its choice of schedules, its counts, and its failures.

Not part of the swarm itself.
"""

import functools
import itertools
import os
import random
import re
import subprocess
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from precedes import catalogue
from precedes.live.member import view
from tests.support import edited
from tests.support.mobile.mutants import MUTANTS
from tests.support.places import ROOT
from tests.support.processes import python
from tests.support.seeds import numbers_of, text_of
from tests.support.swarm import __main__, live_schedules, plugin, radio_schedules, turns
from tests.support.swarm.counts import Counts, Schedule
from tests.support.swarm.families import FAMILIES, SHARES

ARRIVAL = ("receive", "clocks.covers(...)", "True")


def test_every_protocol_has_its_share():
    assert {family.protocol for family in FAMILIES.values()} == set(catalogue.names())
    assert sum(family.share for family in FAMILIES.values()) == SHARES
    drawn = list(turns.all_turns(FAMILIES.values(), count=SHARES, first=7))
    taken = Counter(turn.family.name for turn in drawn for _ in turn.seeds)
    assert taken == {family.name: family.share for family in FAMILIES.values()}
    for name, family in FAMILIES.items():
        seeds = [seed for turn in drawn if turn.family.name == name for seed in turn.seeds]
        assert seeds == list(range(7, 7 + family.share))


def test_a_block_takes_all_families_in_turns():
    families = list(FAMILIES.values())

    def block(name):
        return list(itertools.islice(turns.block_turns(name, families), 3 * len(families)))

    drawn = block("a")
    assert [turn.number for turn in drawn] == list(range(len(drawn)))
    for start in range(0, len(drawn), len(families)):
        names = [turn.family.name for turn in drawn[start : start + len(families)]]
        assert sorted(names) == sorted(FAMILIES)
    assert list(map(str, drawn)) == list(map(str, block("a")))
    assert not set(map(str, drawn)) & set(map(str, block("b")))


def test_turns_are_said_and_read():
    assert text_of([0, 1, 2, 5, 7, 8]) == "0-2,5,7-8"
    for seed in range(50):
        rng = random.Random(seed)
        numbers = set(rng.sample(range(30), rng.randint(1, 30)))
        assert numbers_of(text_of(numbers)) == numbers, f"seed {seed}"


def test_counts_are_those_of_the_schedules():
    together, other = Counts(), Counts()
    together.add("a", Schedule(1200, 3))
    other.add("b", Schedule(has_failed=True))
    other.add("a", Schedule(7))
    together.merge(other.packed())
    assert [line.split() for line in together.lines()][1:] == [
        ["a", "2", "0", "1,207", "3"], ["b", "1", "1", "0", "0"], ["all", "3", "1", "1,207", "3"],
    ]  # fmt: skip


def test_the_time_is_up_in_every_process():
    options = SimpleNamespace(swarm_block="a", swarm_turns=None, swarm_seconds=-1.0)
    swarm = plugin.Swarm(options)
    worker = SimpleNamespace(config=SimpleNamespace(option=options), workerinput={})
    swarm.pytest_configure_node(worker)
    there = SimpleNamespace(option=SimpleNamespace(), workerinput=worker.workerinput)
    for config in (worker.config, there):
        with pytest.raises(pytest.skip.Exception, match="time of the block is up"):
            plugin.skip_if_late(config)
    unlimited = SimpleNamespace(swarm_block="a", swarm_turns="0-3", swarm_seconds=-1.0)
    plugin.Swarm(unlimited)
    plugin.skip_if_late(SimpleNamespace(option=unlimited))


def swarm(*arguments):
    """A block of the swarm as a process of its own."""
    line = ["-m", "pytest", "-q", "-m", "swarm", "-p", "no:cacheprovider", plugin.FILE]
    return python(*line, "--swarm-block", "test", *arguments, env={"PYTHONDONTWRITEBYTECODE": "1"})


@pytest.mark.gate
def test_processes_sum_up_what_they_ran(tmp_path):
    right = edited.protocol(tmp_path, "vector")
    done = swarm("--swarm-protocol", right, "--swarm-turns", "0-2,4", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^edited +40 +0 +\d,\d{3} +0$", done.stdout, re.MULTILINE), done.stdout
    again = f"--swarm-block test --swarm-turns 0-2,4 --swarm-protocol {right}'"
    assert f"the same again: make swarm PYTEST_ARGS='{plugin.FILE} {again}\n" in done.stdout


def test_a_block_convicts_a_mutant(tmp_path, monkeypatch):
    wrong = edited.protocol(tmp_path, "vector", ARRIVAL)
    done = swarm("--swarm-protocol", wrong, "--swarm-turns", "0")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "causal order was broken" in done.stdout
    assert re.search(r"^edited +\d+ +[1-5] ", done.stdout, re.MULTILINE), done.stdout
    command = re.search(r"repeat: python -m tests.support.swarm (\S+) (\d+)", done.stdout)
    monkeypatch.setattr(sys, "argv", ["swarm", *command.groups()])
    with pytest.raises(AssertionError, match="causal order was broken"):
        __main__.main()


MAKE = """#!/bin/sh
echo "seed $PRECEDES_SWARM_SEED: $*"
case "$*" in *%s*) exit 7 ;; esac
"""


@pytest.mark.parametrize(
    ("failing", "statuses", "status"),
    [
        ("nothing", [0, 0, 0, 0, 0], 0),
        ("--ignore", [0, 0, 7, 0, 0], 1),
        ("hypothesis", [0, 0, 0, 7, 0], 1),
        ("matrix", [0, 0, 0, 0, 7], 1),
    ],
)
def test_the_nightly_run_goes_on_after_a_failure(tmp_path, failing, statuses, status):
    """With commands in place of ``make``, which takes hours, and of a browser to install."""
    for name in ("make", "chromium", "chromedriver"):
        (tmp_path / name).write_text(MAKE % failing)
        (tmp_path / name).chmod(0o755)
    variables = {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHON": sys.executable}
    done = subprocess.run(
        [ROOT / ".ci/nightly"],
        env=variables,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    parts = re.findall(r"^exit +(\d+) +\d+ s  (.*)$", done.stdout, re.MULTILINE)
    assert [int(number) for number, _ in parts] == statuses
    names = ["environment", "random schedules", "the rest of the swarm", "random properties"]
    assert [name for _, name in parts] == [*names, "matrix"]
    (seed,) = set(re.findall(r"seeds? (?:from )?(\d+)", done.stdout))
    assert int(seed) % SHARES == 1


def all_pass(check, seeds, directory):
    """AssertionError from the first schedule that does not pass."""
    for seed in seeds:
        check(seed, directory)


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("C: what comes between grant and want is left out", "never delivered"),
        ("G: the grant does not give the record its new session (A4.78)", "never came"),
    ],
)
def test_the_radio_convicts_a_mutant(tmp_path, name, says):
    wrong = edited.protocol(tmp_path, "mobile", *MUTANTS[name][1:])
    with pytest.raises(AssertionError, match=says):
        all_pass(functools.partial(radio_schedules.check, wrong), range(1, 30), tmp_path)


def test_live_schedules_convict_members_that_do_not_learn_of_crashes(monkeypatch, tmp_path):
    monkeypatch.setattr(view, "crash", lambda *_: None)
    with pytest.raises(AssertionError, match="lacks"):
        all_pass(functools.partial(live_schedules.check, "bundled"), (1, 2, 3, 5, 6, 7), tmp_path)

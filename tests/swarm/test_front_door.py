"""What runs the swarm: which schedules it takes, that it counts them right, and that it can fail.

Not part of the swarm itself.
"""

import ast
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
from tests.support.seeds import numbers_of, text_of
from tests.support.swarm import __main__, live_schedules, plugin, radio_schedules, turns
from tests.support.swarm.counts import FAULTS, NETWORKS, Counts, Schedule
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
    rng = random.Random(1)
    parts, together = [Counts() for _ in range(3)], Counts()
    given = []
    for _ in range(400):
        faults = frozenset(rng.sample(FAULTS, rng.choice((0, 1, 1, 3))))
        schedule = Schedule(faults, rng.randrange(9), rng.randrange(3), rng.random() < 0.1)
        if rng.random() < 0.05:
            schedule = Schedule(frozenset(), 0, has_failed=True)
        given.append((rng.choice(NETWORKS[:2]), rng.choice("ab"), schedule))
        rng.choice(parts).add(*given[-1])
    for part in parts:
        together.merge(part.packed())
    assert together.total() == len(given)
    tables = "\n".join(together.lines()).split("\n\n")
    assert tables.pop() == "400 schedules in all"
    assert [table.split(maxsplit=1)[0] for table in tables] == ["links", "radio"]
    for table in tables:
        header, *rows = [re.split(r"\s{2,}", line) for line in table.splitlines()]
        assert [row[0] for row in rows] == ["a", "b", "all"]
        for name, *numbers in rows:
            chosen = [s for n, p, s in given if n == header[0] and (name in {p, "all"})]
            expected = {
                "schedules": len(chosen),
                "failed": sum(s.has_failed for s in chosen),
                "in every way": sum(s.every_way for s in chosen),
                "deliveries": sum(s.deliveries for s in chosen),
                "out of order": sum(s.violations for s in chosen),
                "none": sum(not s.faults and not s.has_failed for s in chosen),
                "several": sum(len(s.faults) > 1 for s in chosen),
                **{fault: sum(fault in s.faults for s in chosen) for fault in FAULTS},
            }
            shown = dict(zip(header[1:], numbers, strict=True))
            assert shown == {column: f"{number:,}" for column, number in expected.items()}


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
    line = [sys.executable, "-m", "pytest", "-q", "-m", "swarm", "-p", "no:cacheprovider"]
    return subprocess.run(
        [*line, plugin.FILE, "--swarm-block", "test", *arguments],
        capture_output=True, text=True, timeout=900, check=False, cwd=ROOT,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


@pytest.mark.gate
def test_processes_sum_up_what_they_ran(tmp_path):
    right = edited.protocol(tmp_path, "vector")
    done = swarm("--swarm-protocol", right, "--swarm-turns", "0-2,4", "-n", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^edited +40 +0 +\d+ +\d,\d{3} +0 ", done.stdout, re.MULTILINE), done.stdout
    assert "40 schedules in all" in done.stdout
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


def test_live_schedules_convict_members_that_pass_nothing_on(monkeypatch, tmp_path):
    monkeypatch.setattr(view, "_send_frozen", lambda member: None)
    with pytest.raises(AssertionError, match="lacks"):
        all_pass(functools.partial(live_schedules.check, "vector"), (1, 2, 3, 5, 6, 7), tmp_path)


def marked(text, mark="swarm"):
    """The tests of a file that are marked, all or some of their parameters, also by a name."""
    tree = ast.parse(text)
    names = {mark}  # and the mark itself, and of what is made with it
    for node in tree.body:
        if isinstance(node, ast.Assign) and names & words(node.value):
            names |= words(node.targets[0])
    return {
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and ("pytestmark" in names or any(names & words(one) for one in node.decorator_list))
    }


def words(node):
    """Names and attributes in a part of a program."""
    return {getattr(part, "id", getattr(part, "attr", None)) for part in ast.walk(node)} - {None}


def test_marked_tests_are_found():
    text = """
import pytest
SEEDS = (1, *(pytest.param(seed, marks=pytest.mark.swarm) for seed in (2, 3)))
MORE = (*SEEDS, 4)

@pytest.mark.parametrize("seed", MORE)
def test_a(seed): ...

@pytest.mark.swarm
def test_b(): ...

def test_c(): ...
"""
    assert marked(text) == {"test_a", "test_b"}
    assert marked(text + "pytestmark = [pytest.mark.swarm]") == {"test_a", "test_b", "test_c"}


@pytest.mark.parametrize("mark", ["gate", "swarm"])
def test_contributing_lists_what_make_test_leaves_out(mark):
    text = (ROOT / "CONTRIBUTING.md").read_text()
    section = text.partition(f"## What only the {mark} covers")[2].partition("\n## ")[0]
    listed = set()
    for row in section.splitlines():
        if match := re.match(r"\| `(tests/\S+)` \| (.*?) \|", row):
            listed |= {f"{match[1]}::{name}" for name in re.findall(r"`(test_\w+)`", match[2])}
    left_out = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        left_out |= {f"{path.relative_to(ROOT)}::{name}" for name in marked(path.read_text(), mark)}
    assert listed == left_out

"""Reserves: rows are taken and given back, and the end of a table is an error that names it."""

import resource
from typing import NamedTuple

import numpy as np
import pytest

from precedes.errors import UserError
from precedes.live.member.node import Node, Settings
from precedes.machine import RESERVE, machine_bytes, reserve_bytes
from precedes.parts import pool
from precedes.sim import Scenario, memory
from precedes.sim.run import Run
from tests.support import commands


class Pairs(NamedTuple):
    first: np.ndarray
    second: np.ndarray
    link: np.ndarray
    mark: np.ndarray


def test_rows_are_used_again():
    rows = pool.reserve(Pairs, 12 * 100)
    assert rows.link.size == 100
    taken = [pool.take(rows) for _ in range(100)]
    assert sorted(taken) == list(range(100))
    with pytest.raises(MemoryError):
        pool.take(rows)
    for row in (7, 3):
        pool.give_back(rows, row)
    assert {pool.take(rows), pool.take(rows)} == {3, 7}


def test_columns_share_a_table():
    rows = pool.reserve(Pairs, 1200)
    rows.first[5], rows.second[5] = 1, 2
    assert rows.first.base is rows.second.base is rows.link.base
    assert rows.first.base[5].tolist() == [1, 2, 0]
    assert not any(column.flags.c_contiguous for column in pool.columns(Pairs, 1)[:3])


def test_what_is_not_used_takes_no_memory():
    rows = pool.reserve(Pairs, 1 << 32)
    assert memory.nbytes(rows) == 0
    pool.take(rows)
    assert memory.nbytes(rows) == 12


class Short(Run):
    """A run whose tables have few rows."""

    def _allocate_state(self):
        self.capacity = self.capacity._replace(reserve_bytes=64)
        return super()._allocate_state()


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_the_end_of_a_table_ends_the_run(tier):
    run = Short(Scenario(protocol="vector", nodes=20, messages=200, rate=2000.0, seed=1))
    with pytest.raises(UserError, match=f"all rows of 'held.rows' are in use: .* set {RESERVE}"):
        run.go(tier=tier)


def test_the_variable_sets_the_size(monkeypatch):
    monkeypatch.delenv(RESERVE, raising=False)
    assert reserve_bytes() == machine_bytes() // 4
    monkeypatch.setenv(RESERVE, "3")
    assert reserve_bytes() == 3 << 20
    node = Node(Settings(member=0, members=3, protocol="vector"))
    assert node.state.held.rows.link.size == (3 << 20) // 16
    monkeypatch.setenv(RESERVE, "much")
    with pytest.raises(UserError, match=f"{RESERVE} must be a whole number of MiB .* not 'much'"):
        reserve_bytes()


@pytest.mark.parametrize(("given", "status"), [({RESERVE: "8"}, 0), ({RESERVE: "9999999"}, 2)])
def test_little_address_space(given, status):
    """As under ``ulimit -v``: with a smaller reserve it works, else one line says what to set."""
    few = (4 << 30, 4 << 30)
    line = ["simulate", "vector", "--nodes", "4", "--messages", "20", "--interpreted", "--json"]
    done = commands.run(
        *line, env=given, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, few)
    )
    assert done.returncode == status, done.stderr
    if status:
        assert done.stderr.count("\n") == 1
        assert f"cannot be reserved: set {RESERVE} to less" in done.stderr

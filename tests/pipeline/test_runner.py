"""Orders in processes of this machine: answers, mistakes, deaths. No Spark."""

import os
import signal
import time
from pathlib import Path

import pytest

from precedes.audit import audit
from precedes.errors import UserError
from precedes.pipeline import audit_files, audit_tables, read_events, run_sweep
from precedes.pipeline.directory import ATTEMPTS_MAX
from precedes.pipeline.runner import PoolRunner, SparkRunner, open_runner
from precedes.pipeline.spark import jobs
from precedes.trace import load
from tests.support import runs


class Square:
    """Work that names its process, dies of some numbers a few times, and refuses others."""

    def __init__(self, folder, *, deadly=(), times=1, refused=()):
        self.folder, self.deadly, self.times, self.refused = str(folder), deadly, times, refused

    def __call__(self, order):
        value = order["value"]
        if value in self.refused:
            raise UserError(f"{value} is refused")
        if value in self.deadly:
            for attempt in range(self.times):
                died = Path(self.folder, f"{value}-{attempt}")
                if not died.exists():
                    died.touch()
                    print("what it said", flush=True)
                    os.kill(os.getpid(), signal.SIGKILL)
        return [value * value, os.getpid()]


def mapped(work, values, **more):
    orders = [{"value": value} for value in values]
    return PoolRunner().map(work, orders, [1.0] * len(orders), title="square", **more)


def test_answers_are_in_the_order_of_the_orders(tmp_path):
    shares, looks = [], []
    found = mapped(
        Square(tmp_path), range(9), progress=shares.append, watch=lambda: looks.append(0)
    )
    assert [square for square, _ in found] == [value * value for value in range(9)]
    assert os.getpid() not in {process for _, process in found}
    assert len({process for _, process in found}) <= PoolRunner().parallelism
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert len(looks) == len(shares)
    assert mapped(Square(tmp_path), []) == []


def test_the_first_mistake_is_raised(tmp_path):
    with pytest.raises(UserError, match=r"^3 is refused$"):
        mapped(Square(tmp_path, refused=(3, 5)), range(7))


def test_an_order_whose_process_dies_is_done_by_another(tmp_path):
    found = mapped(Square(tmp_path, deadly=(2,), times=ATTEMPTS_MAX), range(5))
    assert [square for square, _ in found] == [0, 1, 4, 9, 16]
    assert len(list(tmp_path.iterdir())) == ATTEMPTS_MAX


def test_an_order_that_kills_every_process_ends_the_call(tmp_path):
    with pytest.raises(jobs.TaskError, match=r"^its process died: what it said$"):
        mapped(Square(tmp_path, deadly=(2,), times=99), range(5))
    assert len(list(tmp_path.iterdir())) == ATTEMPTS_MAX + 1


class Sleep:
    """Work that notes its process and never ends."""

    def __init__(self, folder):
        self.folder = str(folder)

    def __call__(self, order):
        Path(self.folder, str(os.getpid())).touch()
        time.sleep(3600)


def test_an_interrupt_ends_the_processes(tmp_path):
    def interrupt():
        if list(tmp_path.iterdir()):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        mapped(Sleep(tmp_path), [1], watch=interrupt)
    (process,) = tmp_path.iterdir()
    with pytest.raises(ProcessLookupError):
        os.kill(int(process.name), 0)


def test_spark_has_what_is_named_or_much_work(spark, monkeypatch):
    monkeypatch.delenv("SPARK_REMOTE", raising=False)
    for work_s, asked, kind in (
        (1.0, {}, PoolRunner),
        (1e6, {}, SparkRunner),
        (1.0, {"session": spark}, SparkRunner),
        (1.0, {"master": spark.conf.get("spark.master")}, SparkRunner),
    ):
        with open_runner(work_s, **asked) as runner:
            assert type(runner) is kind


def test_a_pool_gives_the_tables_and_reports_of_spark(swept, spark, tmp_path):
    """A small sweep starts no session; nor do audits of several files and of tables."""
    directory, done = swept
    again = run_sweep(runs.experiment(tmp_path), tmp_path / "out")
    assert (again.kept, again.failures) == (0, [])
    assert runs.tables(tmp_path / "out") == runs.tables(directory)
    assert again.to_arrow("timings_spark").num_rows == 0
    assert not (tmp_path / "out" / "spark.log").exists()
    traces = [runs.trace_of(directory, run.name) for run in done.runs[::4]]
    shares = []
    reports = audit_files(None, traces, progress=shares.append)
    assert reports == [audit(history) for path in traces for history in load(path)]
    assert shares[-1] == 1.0
    read_events(spark, traces).repartition(3).write.parquet(str(tmp_path / "events"))
    tables = [tmp_path / "events"]
    assert audit_tables(None, tables) == audit_tables(spark, tables)


def test_a_sweep_whose_runs_all_fail_has_empty_tables(tmp_path):
    text = runs.EXPERIMENT.replace("normal:100:20", "matrix:/none")
    done = run_sweep(runs.experiment(tmp_path, text), tmp_path / "out")
    assert len(done.failures) == runs.RUNS
    assert done.to_arrow("runs").column("status").unique().to_pylist() == ["failed"]
    for name in ("run_metrics", "protocol_summary", "latency_by_protocol", "occupancy"):
        assert done.to_arrow(name).num_rows == 0

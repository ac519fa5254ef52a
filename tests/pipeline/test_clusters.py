"""The same tables whatever happens: on clusters, without Java, after ctrl-C and kill -9."""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from precedes.errors import UserError
from precedes.pipeline import run_experiments
from precedes.pipeline.directory import ATTEMPTS_MAX
from precedes.pipeline.plan import expand
from precedes.pipeline.sweep import run_sweep
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment, from_file
from precedes.stores import Address
from tests.support import commands, runs
from tests.support.daemons import (
    PATIENCE_S,
    daemon,
    kill_with_children,
    other_python,
    wait_for_line,
    wait_until,
)
from tests.support.processes import printed
from tests.support.signals import enable_interrupts


@pytest.fixture
def paths_without_java(tmp_path):
    """Every program of this machine but Java."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for place in ("/usr/local/bin", "/usr/bin", "/bin"):
        for program in Path(place).iterdir() if Path(place).is_dir() else ():
            link = folder / program.name
            if not program.name.startswith("java") and not link.is_symlink():
                link.symlink_to(program)
    return folder


@pytest.mark.gate
def test_killed_again_and_again(spark, swept, tmp_path, paths_without_java):
    """On a machine without Java: ctrl-C, kill -9; the third time, with a session, to the end."""
    whole = runs.tables(swept[0])
    experiment, out = runs.write(tmp_path), tmp_path / "out"
    options = ["--master", "local[2]", "--ui", "--conf", "spark.ui.port=0"]
    line = commands.command("sweep", experiment, "--out", out, *options)
    environment = {
        **os.environ,
        "PATH": str(paths_without_java),
        "JAVA_HOME": "",
        "PYSPARK_PYTHON": str(other_python(tmp_path / "other")),
    }
    assert subprocess.run(["sh", "-c", "command -v java"], env=environment).returncode != 0
    finished = {}
    for how, wanted in ((signal.SIGINT, 2), (signal.SIGKILL, 5)):
        # A group of its own, as a terminal would signal it all.
        with subprocess.Popen(
            line, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True,
            preexec_fn=enable_interrupts,
        ) as process:  # fmt: skip
            wait_until(lambda n=wanted: out.is_dir() and count(out) >= n, process)
            if how == signal.SIGINT:
                page = process.stderr.readline()
                assert re.fullmatch(r"precedes: Spark's page: http://127\.0\.0\.1:\d+\n", page)
            os.kill(process.pid, how)
            _, error = process.communicate(timeout=PATIENCE_S)
        if how == signal.SIGINT:
            assert process.returncode == 130, error
            assert error.splitlines()[-1].startswith("precedes: interrupted; finished runs are")
            assert len(error.splitlines()) == 1
        before, finished = finished, settled(out)
        assert before.items() <= finished.items()
        assert wanted <= len(finished) < runs.RUNS
    done = run_sweep(from_file(experiment), out, session=spark)
    assert (done.kept, done.failures) == (len(finished), [])
    assert finished.items() <= runs.records(out).items()
    assert runs.tables(out) == whole


def count(out):
    return len(runs.records(out)) if (out / "records").is_dir() else 0


def settled(out):
    """The finished runs once the workers of a killed sweep have noticed its end."""
    before = None
    while before != (now := runs.records(out)):
        before = now
        time.sleep(1)
    return now


@pytest.mark.swarm
def test_local_cluster(swept, tmp_path):
    """Executors in processes of their own: everything is sent, nothing is shared by accident."""
    experiment, out = runs.write(tmp_path), tmp_path / "out"
    done = commands.run("sweep", experiment, "--out", out, "--master", "local-cluster[2,1,1024]")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert runs.tables(out) == runs.tables(swept[0])


@contextlib.contextmanager
def cluster(directory):
    """A master and two workers on this machine."""
    log = directory / "master.log"
    with daemon(log, "master", "--port", "0") as master:
        url = wait_for_line(log, r"Starting Spark master at (spark://\S+)", master)
        options = ["--cores", "1", "--memory", "1g"]
        with contextlib.ExitStack() as stack:
            workers = []
            for number in range(2):
                own = [*options, "--work-dir", str(directory / f"work{number}"), url]
                name = directory / f"worker{number}.log"
                workers.append(stack.enter_context(daemon(name, "worker", *own)))
            wait_until(lambda: log.read_text().count("Registering worker") == 2)
            yield url, workers


def versions(out):
    """The names of finished runs in a store, and what tells apart two files of one name."""
    records = Address.of(out) / "records"
    return {name: (records / name).version() for name in records.names()}


@pytest.mark.gate
def test_a_worker_dies_on_a_standalone_cluster(swept, bucket, tmp_path):
    """Nothing is shared but a store.

    Workers get a Python in an archive, each at a path of its own, the package, and the settings of
    the store.
    """
    experiment, out = runs.write(tmp_path), f"{bucket}/out"
    other_python(tmp_path / "other")
    packed = shutil.make_archive(tmp_path / "packed", "gztar", tmp_path / "other")
    environment = {**os.environ, "PYSPARK_PYTHON": "./environment/bin/python"}
    with cluster(tmp_path) as (url, workers):
        archive = f"spark.archives={packed}#environment"
        options = ["--master", url, "--conf", archive]
        line = commands.command("sweep", experiment, "--out", out, *options)
        with subprocess.Popen(
            line, stderr=subprocess.PIPE, text=True, preexec_fn=enable_interrupts, env=environment
        ) as process:
            wait_until(lambda: len(versions(out)) >= 2, process)
            # The executor too: without its worker it would live on for a while.
            kill_with_children(workers[0])
            at_the_kill = versions(out)
            _, error = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, error
    assert len(at_the_kill) < runs.RUNS
    assert at_the_kill.items() <= versions(out).items()
    assert runs.tables(out) == runs.tables(swept[0])


def test_a_run_that_its_process_dies_of(spark, tmp_path):
    """Spark tries again; the run is given up in time, and the others are finished."""
    base = Scenario(protocol="unordered", nodes=5, messages=10)
    large = base.replace(nodes=200, messages=100_000, seed=42)
    experiment = Experiment("deadly", (base, large, base.replace(seed=2)))
    (name,) = (run.name for run in expand([experiment]) if run.scenario == large)
    killed = set()

    def kill(share):
        for note in (tmp_path / "started").glob(f"{name}-*"):
            process = note.read_text()
            if process and process not in killed:
                killed.add(process)
                os.kill(int(process), signal.SIGKILL)

    with pytest.raises(UserError) as caught:
        run_experiments([experiment], tmp_path, session=spark, progress=kill)
    assert "1 of 3 runs failed" in str(caught.value)
    assert f"seed 42): its process died {ATTEMPTS_MAX} times" in str(caught.value)
    assert len(killed) == ATTEMPTS_MAX
    assert len(runs.records(tmp_path)) == 2


def test_nobody_at_the_master(tmp_path):
    experiment, out = runs.write(tmp_path), tmp_path / "out"
    done = commands.run("sweep", experiment, "--out", out, "--master", "spark://127.0.0.1:9")
    assert (done.returncode, done.stdout) == (2, "")
    assert len(done.stderr.splitlines()) == 1
    assert "no Spark master at spark://127.0.0.1:9" in done.stderr
    done = commands.run("sweep", experiment, "--out", out, "--master", "nonsense")
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1, done.stderr
    assert "'nonsense' is not a Spark master" in done.stderr


# A notebook's session, with Spark's own settings: a task that fails once ends its job.
NOTEBOOK = """
import contextlib, os, signal, sys, threading, time
from pathlib import Path
from pyspark.sql import SparkSession
from precedes.errors import UserError
from precedes.pipeline import run_experiments
from precedes.pipeline.spark import java
from precedes.pipeline.spark.session import JAVA_OPTIONS
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment

out = Path(sys.argv[1])
os.environ |= {"JAVA_HOME": str(java.java_home()), "PYSPARK_PYTHON": sys.executable}
builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.extraJavaOptions", JAVA_OPTIONS)
session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
session.sparkContext.setLogLevel("OFF")
small = Scenario(protocol="unordered", nodes=5, messages=10)
large = small.replace(nodes=200, messages=50_000, oracle=False)
seeds = [large.replace(seed=seed) for seed in (1, 2)]
first = Experiment("first", (small, *seeds, small.replace(seed=2)))
killed = []

def kill_a_worker():
    while not killed:  # progress is polled rarely on a busy machine
        time.sleep(0.01)
        for note in (out / "started").glob("*"):
            with contextlib.suppress(FileNotFoundError):  # that run is over
                if (process := note.read_text()) and not killed:
                    killed.append(process)
                    os.kill(int(process), signal.SIGKILL)

threading.Thread(target=kill_a_worker, daemon=True).start()
results = run_experiments([first], out, session=session)
print(len(results["first"]), len(killed), flush=True)

def kill_java(share):
    if any((out / "started").iterdir()):
        os.kill(session.sparkContext._gateway.proc.pid, signal.SIGKILL)

endless = Experiment("second", (large.replace(messages=10_000_000),))
try:
    run_experiments([endless], out, session=session, progress=kill_java)
except UserError as error:
    print(error)
"""


@pytest.mark.gate
@pytest.mark.usefixtures("engine")
def test_a_session_that_tries_once(tmp_path):
    """A killed worker costs its runs another attempt; a dead Java is reported as such."""
    reported = printed("-c", NOTEBOOK, tmp_path / "out", env={"SPARK_LOCAL_IP": "127.0.0.1"})
    first, second = reported.splitlines()
    assert first == "4 1"
    assert second.startswith("Spark failed: its Java process has ended, or was killed (more in ")
    assert f"finished runs are kept in {tmp_path / 'out'}" in second
    assert count(tmp_path / "out") == 4

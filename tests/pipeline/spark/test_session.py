"""Settings of a session, and the archive for its executors."""

import importlib.util
import json
import urllib.request
import zipfile

import pytest

from precedes import sources
from precedes.cli.main import main
from precedes.errors import UserError
from precedes.pipeline.spark import jobs, master
from precedes.pipeline.spark.session import (
    check_settings,
    driver_memory_mb,
    open_session,
    write_archive,
)
from tests.support.processes import printed


def test_the_drivers_memory_is_a_share_of_the_machines():
    assert [driver_memory_mb(gb << 30) for gb in (2, 8, 24, 64, 1024)] == [
        1024, 1024, 3072, 8192, 8192,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("spark.executor.memory", "--conf takes NAME=VALUE, not 'spark.executor.memory'"),
        ("executor.memory=2g", "'executor.memory' is not a setting of Spark: their names begin"),
        ("spark.master=local", "spark.master is what --master is for"),
    ],
)
def test_settings_that_are_none(given, said, capsys):
    line = ["audit", "examples/chat.jsonl", "--master", "local[1]", "--conf", given]
    assert main(line) == 2
    error = capsys.readouterr().err
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.usefixtures("spark")
def test_a_session_that_runs_takes_no_settings(capsys):
    line = ["audit", "examples/chat.jsonl", "--conf", "spark.executor.memory=2g"]
    assert main(line) == 2
    assert "spark.executor.memory cannot be set in a Spark session that runs already" in (
        capsys.readouterr().err
    )


def test_what_masters_are():
    check_settings({"spark.executor.memory": "2g"})
    assert master.with_retries("local[3]") == "local[3,8]"
    assert master.with_retries("sc://host") == "sc://host"
    here = ["local", "local[2,8]", "local-cluster[2,1,1024]", "spark://127.0.0.1:7077"]
    assert [name for name in here if not master.is_here(name)] == []
    there = ["spark://host:7077", "yarn", "k8s://https://host:443", "sc://host:15002"]
    assert [name for name in there if master.is_here(name)] == []
    assert [name for name in (*here, *there) if master.is_one_process(name)] == here[:2]
    assert [master.own_address(name) for name in (*here, "yarn")] == ["127.0.0.1"] * 4 + [None]
    with pytest.raises(UserError, match="is not a Spark master"):
        master.check_reachable("http://host")


def test_the_page_and_what_jobs_took(spark):
    """Spark's own page on this machine alone; counts of tasks, retries and bytes by its store."""
    page = spark.sparkContext.uiWebUrl
    assert page.startswith("http://127.0.0.1:")
    with urllib.request.urlopen(f"{page}/api/v1/applications", timeout=60) as answer:
        assert json.load(answer)[0]["name"] == "precedes"
    took = []
    rows = spark.range(0, 1000, 1, 5).repartition(3)

    def fails_at_first(batches):
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context.partitionId() or context.attemptNumber(), "this one is tried again"
        yield from batches

    with jobs.listening(took.append), open_session(session=spark):
        shuffled = rows.mapInArrow(fails_at_first, "id long")
        assert jobs.wait_for(spark, shuffled.toArrow, title="count").num_rows == 1000
        with pytest.raises(jobs.SparkError):
            jobs.wait_for(spark, lambda: spark.range(1).select("none"), title="nothing")
    first, second = took
    assert (first.title, first.tasks, first.failed_tasks) == ("count", 8, 1)
    assert first.shuffled_bytes > 0
    assert first.task_s > 0
    assert first.java_cpu_s > 0
    assert str(first).startswith("count: ")
    assert "8 tasks, 1 of them failed" in str(first)
    assert (second.title, second.tasks) == ("nothing", 0)


COMPILERS = """
from precedes.pipeline import open_session
from precedes.pipeline.runner import open_runner
from precedes.pipeline.spark.session import QUICK_COMPILER

for is_quick in (False, True):
    with open_runner(master="local[1]") if is_quick else open_session(master="local[1]"):
        from pyspark.sql import SparkSession

        options = SparkSession.active().conf.get("spark.driver.extraJavaOptions")
        assert (QUICK_COMPILER in options) == is_quick, options
"""


@pytest.mark.gate
def test_only_tasks_of_python_have_the_quick_compiler():
    """Sweeps and audits of files; queries over DataFrames run in Java for longer."""
    printed("-c", COMPILERS)


def test_the_archive_is_the_package(tmp_path):
    """The same bytes each time; unpacked as a folder of its name it is the package itself."""
    for name in ("one.zip", "two.zip"):
        write_archive(tmp_path / name)
    assert (tmp_path / "one.zip").read_bytes() == (tmp_path / "two.zip").read_bytes()
    place = tmp_path / "executor"
    with zipfile.ZipFile(tmp_path / "one.zip") as archive:
        archive.extractall(place / "precedes")
    names = {path.relative_to(place / "precedes") for path in (place / "precedes").rglob("*.py")}
    assert names == {path.relative_to(sources.PACKAGE) for path in sources.files()}
    assert (place / "precedes" / "py.typed").is_file()
    ask = "from precedes import sources; print(sources.PACKAGE, sources.digest_of_runs())"
    reported = printed("-c", ask, env={"PYTHONPATH": str(place)})
    assert reported.split() == [str(place / "precedes"), sources.digest_of_runs()]
    assert importlib.util.find_spec("precedes").origin == str(sources.PACKAGE / "__init__.py")


def test_pages_stay_at_home(tmp_path, monkeypatch):
    """The archive that executors import: the code, and nothing that is only shown."""
    package = tmp_path / "precedes"
    for name in ("model.py", "report/page.css", "share/docs/live.md", "share/examples/chat.py"):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).touch()
    monkeypatch.setattr(sources, "PACKAGE", package)
    monkeypatch.setattr(sources, "SHARE", package / "share")
    write_archive(tmp_path / "package.zip")
    assert zipfile.ZipFile(tmp_path / "package.zip").namelist() == ["model.py", "report/page.css"]
    assert [path.name for path in sources.files()] == ["model.py"]

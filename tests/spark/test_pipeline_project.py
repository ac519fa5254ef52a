"""The example of Declarative Pipelines, run by Spark's own command."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from precedes.pipeline.spark.java import java_home
from tests.support.daemons import PATIENCE_S
from tests.support.places import ROOT


@pytest.mark.gate
def test_a_pipeline_has_the_violation_of_its_log(tmp_path):
    for name in ("pipeline", "logs"):
        shutil.copytree(ROOT / "examples" / name, tmp_path / name)
    spec = tmp_path / "pipeline/spark-pipeline.yml"
    spec.write_text(spec.read_text().replace("/tmp/precedes-pipeline", f"{tmp_path}/storage"))
    # For tests, Spark's server listens on any free port.
    places = {
        "JAVA_HOME": str(java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_TESTING": "1",
    }
    command = [Path(sys.executable).with_name("spark-pipelines"), "run"]
    command[1:1] = ["--conf", "spark.sql.catalogImplementation=hive"]
    for _ in range(2):  # the second one finds the tables of the first
        done = subprocess.run(
            command,
            cwd=spec.parent,
            env={**os.environ, **places},
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    tables = spec.parent / "spark-warehouse"
    (run,) = pq.read_table(tables / "runs").to_pylist()
    (violation,) = pq.read_table(tables / "violations").to_pylist()
    assert (run["run_id"], run["verdict"], run["error"]) == ("chat", "violated", None)
    assert violation["sentence"].startswith("node eve delivered answer before question")

"""The daemons of a standalone cluster, from the installed package."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, NoReturn

from precedes.errors import UserError
from precedes.pipeline.spark import java
from precedes.pipeline.spark.session import require_pyspark

CLASSES: Final = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}


def become(daemon: str, *, host: str, master: str | None, **options: object) -> NoReturn:
    """Be a daemon from here on: signals, the process number and the exit status are its own.

    ``options`` are Spark's own, those that are None left out; ``master`` is the worker's.
    """
    require_pyspark()
    import pyspark

    home = Path(pyspark.__file__).parent
    line = [str(home / "bin" / "spark-class"), CLASSES[daemon]]
    for name, value in {"host": host, **options}.items():
        line += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    line += [] if master is None else [master]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": host,
    }
    sys.stdout.flush()
    try:
        os.execve(line[0], line, environment)
    except OSError as error:
        raise UserError(f"cannot start {line[0]}: {error.strerror}") from None

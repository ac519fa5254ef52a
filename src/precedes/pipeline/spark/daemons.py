"""The daemons of a standalone cluster, and a Spark Connect server, from the installed package."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, NoReturn

from precedes.errors import UserError
from precedes.machine import machine_bytes
from precedes.pipeline.spark import java
from precedes.pipeline.spark.master import LOOPBACK, with_retries
from precedes.pipeline.spark.session import (
    JAVA_OPTIONS,
    PYTHON,
    check_settings,
    driver_memory_mb,
    require_pyspark,
)

Announce = Callable[[], None]

CLASSES: Final = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
    "connect": "org.apache.spark.sql.connect.service.SparkConnectServer",
}


def become(
    daemon: str, *, host: str, master: str | None, announce: Announce, **options: object
) -> NoReturn:
    """Become a master or a worker: signals, process number and exit status are its own.

    ``options`` are Spark's own, without those that are None; ``master`` is the worker's.
    ``announce`` is called as the last step before that.
    """
    words = [CLASSES[daemon]]
    for name, value in {"host": host, **options}.items():
        words += [] if value is None else [f"--{name.replace('_', '-')}", str(value)]
    words += [] if master is None else [master]
    _become("spark-class", words, host=host, announce=announce)


def become_server(
    *, host: str, port: int, master: str, settings: Mapping[str, str], announce: Announce
) -> NoReturn:
    """Become a Spark Connect server, whose tasks run on this master."""
    check_settings(settings)
    wanted = {
        "spark.connect.grpc.binding.address": host,
        "spark.connect.grpc.binding.port": str(port),
        "spark.ui.enabled": "false",
        "spark.driver.memory": f"{driver_memory_mb(machine_bytes())}m",
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        **({"spark.driver.host": LOOPBACK} if host == LOOPBACK else {}),
        **settings,
    }
    words = ["--master", with_retries(master), "--class", CLASSES["connect"]]
    for name, value in wanted.items():
        words += ["--conf", f"{name}={value}"]
    # Spark's name for a program that is one of its own classes.
    _become("spark-submit", [*words, "spark-internal"], host=host, announce=announce)


def _become(program: str, words: list[str], *, host: str, announce: Announce) -> NoReturn:
    require_pyspark()
    import pyspark

    home = Path(pyspark.__file__).parent
    line = [str(home / "bin" / program), *words]
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.java_home()),
        PYTHON: os.environ.get(PYTHON) or sys.executable,
        "SPARK_LOCAL_IP": host,
    }
    announce()
    sys.stdout.flush()
    try:
        os.execve(line[0], line, environment)
    except OSError as error:
        raise UserError(f"cannot start {line[0]}: {error.strerror}") from None

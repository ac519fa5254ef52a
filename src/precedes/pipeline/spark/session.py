"""The Spark session: one factory, which also takes a session that somebody else has made."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import shutil
import socket
import struct
import sys
import tempfile
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from precedes.errors import UserError
from precedes.files import own_directory
from precedes.pipeline.spark import java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LOOPBACK: Final = "127.0.0.1"
DEFAULT_MASTER: Final = "local[*]"

MASTERS: Final = re.compile(r"(local(\[[^]]+\])?|local-cluster\[[^]]+\]|yarn)$|(spark|k8s)://.")

LOCAL: Final = re.compile(r"local(?:\[(\d+|\*)\])?")

# Reaching a master takes milliseconds; Spark itself would try for a minute.
CONNECT_S: Final = 5.0
# Starting a JVM and registering an application; a cluster that takes longer is not there.
START_S: Final = 180.0

# Java runs for seconds and plans small queries: its optimising compiler and parallel collector
# would double the CPU time of a session.
JAVA_OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

PY4J_LOGGERS: Final = ("py4j.java_gateway", "py4j.clientserver")
# They print the error of a query with all of Java's stack, besides raising it.
QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

# A question that every server of Spark's answers with a failure: for a stream that is not there.
_STREAM: Final = b"/files/none"
KNOCK: Final = struct.pack(f">QBI{len(_STREAM)}s", 13 + len(_STREAM), 6, len(_STREAM), _STREAM)
STREAM_FAILURE: Final = 8
TLS_ALERT: Final = b"\x15\x03"  # what a master that asks for TLS answers

LOG4J: Final = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

# A process may die of a run; the run is given up before the task is (execute.ATTEMPTS_MAX).
FAILURES_MAX: Final = 8

# Files, an application of one user at a time, tables of a few thousand rows: few partitions, no
# web server, and no rearranging of tasks that were packed on purpose.
SETTINGS: Final = {
    "spark.driver.memory": "2g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.task.maxFailures": str(FAILURES_MAX),
    "spark.python.worker.reuse": "true",
}


@contextlib.contextmanager
def open_session(
    *,
    master: str | None = None,
    session: SparkSession | None = None,
    log: Path | None = None,
    settings: dict[str, str] | None = None,
) -> Iterator[SparkSession]:
    """A session for a block: the one given, the active one, or a new one that ends with it.

    A new one runs on ``master`` (default: all cores of this machine), listens on 127.0.0.1 only
    unless the master is elsewhere, and writes what Java says to ``log``, a file that stays, or
    else to one that goes with the session. ``settings`` are added to its own.
    """
    require_pyspark()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    master = None if master is None else _with_retries(master)
    found = session
    if found is None:
        with contextlib.suppress(PySparkRuntimeError):  # there is none
            found = SparkSession.active()
    if found is not None:
        _check_master(found, master)
        with _unlogged():
            yield found
        return
    scratch = _scratch()
    try:
        where = master or _with_retries(DEFAULT_MASTER)
        with _unlogged():
            made = _start(where, scratch, log or scratch / "spark.log", settings or {})
            if log is not None:
                _logs[made] = log
            try:
                yield made
            finally:
                _stop(made)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# Where the messages of sessions made here go and stay.
_logs: Final[weakref.WeakKeyDictionary[SparkSession, Path]] = weakref.WeakKeyDictionary()


def log_of(session: SparkSession) -> Path | None:
    """The log of a session, if it was made here and its log stays."""
    return _logs.get(session)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Have Spark's Python side not log calls and queries that fail, which it raises as well.

    py4j would print a traceback for every call that Ctrl-C interrupts or that Java dies in, partly
    with the root logger.
    """
    import py4j
    from pyspark.logger import PySparkLogger

    home = str(Path(py4j.__file__).parent)

    def is_wanted(record: logging.LogRecord) -> bool:
        unwanted = record.name in QUERY_LOGGERS or record.pathname.startswith(home)
        return record.levelno < logging.ERROR or not unwanted

    loggers = [logging.getLogger(name) for name in (None, *PY4J_LOGGERS)]
    loggers += [PySparkLogger.getLogger(name) for name in QUERY_LOGGERS]
    for logger in loggers:
        logger.addFilter(is_wanted)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_wanted)


def require_pyspark() -> None:
    """Say what to install if Spark is not there."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UserError(f"this needs Spark, which is not installed: {java.HELP}") from None


def _with_retries(master: str) -> str:
    """A local master that tries a task again; by itself it would give up at the first failure."""
    match = LOCAL.fullmatch(master)
    return master if match is None else f"local[{match[1] or 1},{FAILURES_MAX}]"


def _check_master(session: SparkSession, master: str | None) -> None:
    running = session.conf.get("spark.master", "")
    if master is not None and running and running != master:
        raise UserError(
            f"a Spark session on {running} is running in this process: stop it, or leave out "
            f"the master {master}"
        )


def _start(master: str, scratch: Path, log: Path, settings: dict[str, str]) -> SparkSession:
    from pyspark.sql import SparkSession

    _check_reachable(master)
    log = log.absolute()
    log4j = scratch / "log4j2.properties"
    log4j.write_text(LOG4J.format(log=log), encoding="utf-8")
    wanted = {
        **SETTINGS,
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.executor.extraJavaOptions": JAVA_OPTIONS,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} {JAVA_OPTIONS}",
        **{f"spark.executorEnv.{name}": value for name, value in _environment().items()},
        **settings,
    }
    if _is_here(master):
        wanted |= {"spark.driver.host": LOOPBACK, "spark.driver.bindAddress": LOOPBACK}
    builder = SparkSession.builder.master(master).appName("precedes")
    for name, value in wanted.items():
        builder = builder.config(name, value)
    variables = {
        "JAVA_HOME": str(java.java_home()),
        java.LOG_VARIABLE: str(log),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
    }
    if _is_here(master):
        variables["SPARK_LOCAL_IP"] = LOOPBACK
    with _variables(variables):
        session = _bounded(builder, master, log)
    session.sparkContext.setLogLevel("ERROR")
    return session


def _bounded(builder: Any, master: str, log: Path) -> SparkSession:
    """Make the session, or say within ``START_S`` why there is none."""
    made: list[SparkSession] = []
    errors: list[BaseException] = []

    def make() -> None:
        try:
            made.append(builder.getOrCreate())
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=make, daemon=True)
    thread.start()
    thread.join(START_S)
    if made:
        return made[0]
    reason = "no answer" if not errors else _cause(errors[0], log)
    raise UserError(f"Spark did not start on {master}: {reason}")


def _cause(error: BaseException, log: Path) -> str:
    """The line that tells most: of the log if Java said something, else of the error."""
    with contextlib.suppress(OSError):
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        told = [line for line in lines if re.search(r"\bERROR\b|Exception|Error:", line)]
        if told:
            return told[-1].strip()[:300]
    return str(error).splitlines()[0][:300] if str(error) else type(error).__name__


def _stop(session: SparkSession) -> None:
    """End the session and its Java, so that the next one of this process starts afresh."""
    from pyspark import SparkContext

    with contextlib.suppress(Exception):  # a session whose Java is dead already
        session.stop()
    gateway = SparkContext._gateway
    if gateway is not None:
        with contextlib.suppress(Exception):
            gateway.shutdown()
        process = getattr(gateway, "proc", None)
        if process is not None:
            # Java ends when its standard input does.
            process.stdin.close()
            with contextlib.suppress(Exception):
                process.wait(timeout=30)
        SparkContext._gateway = None
        SparkContext._jvm = None


def _check_reachable(master: str) -> None:
    """Refuse at once what is no master, and a standalone master that nobody listens for."""
    if not MASTERS.match(master):
        raise UserError(
            f"{master!r:.80} is no Spark master: use local[*], local[N] or spark://HOST:PORT"
        )
    if not master.startswith("spark://"):
        return
    failures = []
    for address in master.removeprefix("spark://").split(","):
        parts = urlsplit(f"//{address}")
        try:
            where = (parts.hostname or "", parts.port or 7077)
            with socket.create_connection(where, timeout=CONNECT_S) as connection:
                if _is_spark(connection):
                    return
            failures.append(f"{address}: what listens there is no Spark master")
        except ValueError:
            failures.append(f"{address} is no HOST:PORT")
        except OSError as error:
            failures.append(f"{address}: {error.strerror or error}")
    raise UserError(f"no Spark master at {master} ({'; '.join(failures)}): check --master")


def _is_spark(connection: socket.socket) -> bool:
    """Whether a server speaks Spark's protocol, or TLS, within ``CONNECT_S``."""
    try:
        connection.sendall(KNOCK)
        answer = b""
        while len(answer) < 9 and (more := connection.recv(9 - len(answer))):
            answer += more
    except OSError:
        return False
    return answer[8:] == bytes([STREAM_FAILURE]) or answer.startswith(TLS_ALERT)


def _is_here(master: str) -> bool:
    if master.startswith("local"):
        return True
    host = urlsplit(master).hostname
    return host in (LOOPBACK, "localhost", "::1")


def _environment() -> dict[str, str]:
    """What executors must see of this process's variables: all that precedes reads."""
    return {name: value for name, value in os.environ.items() if name.startswith("PRECEDES_")}


@contextlib.contextmanager
def _variables(wanted: dict[str, str]) -> Iterator[None]:
    """Environment variables for the processes started in a block."""
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _scratch() -> Path:
    """A directory on a real disk for what Spark spills; those of dead processes are removed."""
    places = [os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0], "/var/tmp"]
    usable = [place for place in places if place and os.access(place, os.W_OK)]
    base = Path(usable[0] if usable else tempfile.gettempdir())
    try:
        return own_directory(base, "precedes-spark-")
    except OSError as error:
        raise UserError(
            f"Spark cannot work in {base}: {error.strerror}; name a directory with SPARK_LOCAL_DIRS"
        ) from None

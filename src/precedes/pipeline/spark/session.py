"""The Spark session: one factory, which also accepts an existing session."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import re
import shutil
import sys
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from precedes import sources, waiting
from precedes.console import say
from precedes.errors import UserError
from precedes.files import own_directory
from precedes.machine import machine_bytes
from precedes.pipeline.spark import java
from precedes.pipeline.spark.master import (
    CONNECT,
    DEFAULT,
    FAILURES_MAX,
    LOOPBACK,
    check_reachable,
    is_connect,
    is_here,
    is_one_process,
    own_address,
    with_retries,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Starting a JVM and registering an application; a slower cluster counts as unreachable.
START_S: Final = 180.0

JAVA_OPTIONS: Final = "-XX:+UseSerialGC"
# Where tasks of Python do the work, as in sweeps, Java runs for seconds and plans small queries:
# its optimising compiler would take more CPU time than it saves.
QUICK_COMPILER: Final = "-XX:TieredStopAtLevel=1"

# The driver plans, and holds tables with a row a run.
DRIVER_PART: Final = 8
DRIVER_MIN_BYTES: Final = 1 << 30
DRIVER_MAX_BYTES: Final = 8 << 30

UI: Final = "spark.ui.enabled"
PYTHON: Final = "PYSPARK_PYTHON"
REMOTE: Final = "SPARK_REMOTE"
LOCAL_IP: Final = "SPARK_LOCAL_IP"
CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"

PY4J_LOGGERS: Final = ("py4j.java_gateway", "py4j.clientserver")
# They print the error of a query with all of Java's stack, in addition to raising it.
QUERY_LOGGERS: Final = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")

# Without times and owners: the same sources give the same archive.
DATE: Final = (1980, 1, 1, 0, 0, 0)
MODE: Final = 0o644 << 16

LOG4J: Final = """status = error
rootLogger.level = warn
rootLogger.appenderRef.file.ref = file
appender.file.type = File
appender.file.name = file
appender.file.fileName = {log}
appender.file.layout.type = PatternLayout
appender.file.layout.pattern = %d{{HH:mm:ss}} %p %c{{1}}: %m%n%ex
"""

# Files, an application of one user at a time, tables of a few thousand rows: few partitions, no
# web server, and no rearranging of tasks that were packed on purpose.
SETTINGS: Final = {
    UI: "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.task.maxFailures": str(FAILURES_MAX),
    "spark.python.worker.reuse": "true",
}


@contextlib.contextmanager
def open_session(
    *,
    master: str | None = None,
    session: SparkSession | None = None,
    log: Path | None = None,
    settings: Mapping[str, str] | None = None,
    for_tasks: bool = False,
) -> Iterator[SparkSession]:
    """A session for a block: the one given, the active one, or a new one that ends with it.

    A new one runs on ``master`` (default: ``SPARK_REMOTE``, or all cores of this machine), listens
    on 127.0.0.1 only unless the master is elsewhere, and writes Java's output to ``log``, a
    permanent file, or else to a temporary one. ``settings`` are Spark's, and override those chosen
    here; with ``spark.ui.enabled`` the address of its page is printed. ``for_tasks`` chooses Java's
    quick compiler, for work that is done in Python.

    Executors on other machines, or with another Python, import this package from an archive of it.
    """
    require_pyspark()
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    check_settings(settings or {})
    asked = None if master is None else with_retries(master)
    spark = session
    if spark is None:
        with contextlib.suppress(PySparkRuntimeError):  # there is none
            spark = SparkSession.active()
    if spark is not None:
        _check_existing(spark, asked, settings)
        with _unlogged():
            _send_to(spark)
            yield spark
        return
    scratch = _scratch()
    try:
        where = asked or with_retries(os.environ.get(REMOTE) or DEFAULT)
        # Undo Spark's note that this process is a client of Connect.
        with _unlogged(), _variables({CONNECT_MODE: os.environ.get(CONNECT_MODE)}):
            java_options = f"{JAVA_OPTIONS} {QUICK_COMPILER}" if for_tasks else JAVA_OPTIONS
            log_path = log or scratch / "spark.log"
            made = _start(where, scratch, log_path, settings or {}, java_options)
            if log is not None and not is_connect(where):
                _logs[made] = log
            try:
                yield made
            finally:
                _stop(made)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


# Sessions whose executors have this package.
_served: Final[weakref.WeakSet[SparkSession]] = weakref.WeakSet()


def _send_to(session: SparkSession) -> None:
    """Send the package to the executors of a foreign session, once, if they are elsewhere."""
    if session in _served or not _is_elsewhere(session):
        return
    folder = _scratch()  # Spark reads it for the lifetime of the session
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    _send(session, folder)
    _served.add(session)


def context_of(session: SparkSession) -> Any:
    """The context of a session; None if it has none, as those of Spark Connect."""
    return getattr(session, "sparkContext", None)


def _is_elsewhere(session: SparkSession) -> bool:
    """Return whether tasks of a session may run other code: those of Connect are its server's."""
    context = context_of(session)
    if context is None or not is_one_process(str(context.master)):
        return True
    return bool(context.pythonExec != sys.executable)


# Log files of the sessions made here, if they are permanent.
_logs: Final[weakref.WeakKeyDictionary[SparkSession, Path]] = weakref.WeakKeyDictionary()


def log_of(session: SparkSession) -> Path | None:
    """The log of a session, if it was made here and is permanent."""
    return _logs.get(session)


def require_pyspark() -> None:
    """Raise UserError with the package to install if Spark is missing."""
    try:
        import pyspark  # noqa: F401
    except ImportError:
        raise UserError(f"this needs Spark, which is not installed: {java.HELP}") from None


def _check_existing(
    session: SparkSession, master: str | None, settings: Mapping[str, str] | None
) -> None:
    """Raise for arguments that an existing session cannot honour."""
    if settings:
        raise UserError(
            f"{next(iter(settings))} cannot be set in a Spark session that runs already: set it "
            "where the session is made"
        )
    if master is None:
        return
    if context_of(session) is None:
        running = f"{CONNECT}{session.client.host}"
        same = is_connect(master) and urlsplit(master).hostname == session.client.host
    else:
        running = session.conf.get("spark.master", "")
        same = running in ("", master)
    if not same:
        raise UserError(
            f"a Spark session on {running} is running in this process: stop it, or leave out "
            f"the master {master}"
        )


def _start(
    master: str, scratch: Path, log: Path, settings: Mapping[str, str], java_options: str
) -> SparkSession:
    if is_connect(master):
        from pyspark.errors import PySparkImportError

        try:
            from pyspark.sql.connect.utils import check_dependencies

            check_dependencies()
        except (ImportError, PySparkImportError):
            raise UserError(
                "Spark Connect is not installed: pip install 'precedes[connect]'"
            ) from None
    check_reachable(master)
    log = log.absolute()
    # The address for executors, and only for them; None: Spark chooses, or the user has.
    is_chosen = bool(os.environ.get(LOCAL_IP)) and not is_here(master)
    own = None if is_chosen else own_address(master)
    with waiting.shown("starting Spark"):
        if is_connect(master):
            with _variables({REMOTE: None}):
                made = _bounded(_connect_builder(master, settings), master, log)
        else:
            with _variables(_start_variables(log, settings, own)):
                builder = _builder(master, scratch, log, settings, own, java_options)
                made = _bounded(builder, master, log)
        try:
            if not is_connect(master):
                made.sparkContext.setLogLevel("ERROR")
            if _is_elsewhere(made):
                _send(made, scratch)
            _served.add(made)
        except BaseException:
            _stop(made)
            raise
    if _has_page(settings):
        url = made.sparkContext.uiWebUrl
        # Spark names the address for executors, not the one where the page listens.
        here = url if own is None else f"http://{LOOPBACK}:{urlsplit(url).port}"
        say(f"Spark's page: {here}")
    return made


def _has_page(settings: Mapping[str, str]) -> bool:
    return settings.get(UI, "").lower() == "true"


def check_settings(settings: Mapping[str, str]) -> None:
    """Raise UserError for settings that Spark would ignore silently."""
    for name in settings:
        if not name.startswith("spark."):
            raise UserError(
                f"{name!r:.80} is not a setting of Spark: their names begin with spark."
            )
        if name in ("spark.master", "spark.remote"):
            raise UserError(f"{name} is what `master` is for: name it there")


def _builder(
    master: str,
    scratch: Path,
    log: Path,
    settings: Mapping[str, str],
    own: str | None,
    java_options: str,
) -> Any:
    from pyspark.sql import SparkSession

    log4j = scratch / "log4j2.properties"
    log4j.write_text(LOG4J.format(log=log), encoding="utf-8")
    wanted = {
        **SETTINGS,
        "spark.driver.memory": f"{driver_memory_mb(machine_bytes())}m",
        "spark.local.dir": str(scratch),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        # All variables of this process that precedes reads.
        **{f"spark.executorEnv.{k}": v for k, v in os.environ.items() if k.startswith("PRECEDES_")},
    }
    if own is not None:
        wanted |= {"spark.driver.host": own, "spark.driver.bindAddress": own}
    wanted |= settings
    # Of two contradictory options Java uses the last.
    options = {
        "spark.executor.extraJavaOptions": java_options,
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{log4j} {java_options}",
    }
    wanted |= {name: f"{ours} {settings.get(name, '')}".strip() for name, ours in options.items()}
    builder = SparkSession.builder.master(master).appName("precedes")
    for name, value in wanted.items():
        builder = builder.config(name, value)
    return builder


def _start_variables(
    log: Path, settings: Mapping[str, str], own: str | None
) -> dict[str, str | None]:
    """Environment variables for starting Java."""
    python = settings.get("spark.pyspark.python") or os.environ.get(PYTHON) or sys.executable
    return {
        "JAVA_HOME": str(java.java_home()),
        java.LOG_VARIABLE: str(log),
        PYTHON: python,
        "PYSPARK_DRIVER_PYTHON": os.environ.get("PYSPARK_DRIVER_PYTHON") or sys.executable,
        REMOTE: None,  # it would override any master
        # The address of Spark's page; the one for executors is a setting.
        **({} if own is None else {LOCAL_IP: LOOPBACK}),
    }


def driver_memory_mb(machine_bytes: int) -> int:
    """Java's memory in the driver: a share of the machine's, the rest being for tasks."""
    return min(max(machine_bytes // DRIVER_PART, DRIVER_MIN_BYTES), DRIVER_MAX_BYTES) >> 20


def _connect_builder(master: str, settings: Mapping[str, str]) -> Any:
    """The builder for a session on a server, which has its own memory, Python and log."""
    from pyspark.sql import SparkSession

    if _has_page(settings):
        raise UserError("Spark Connect's page belongs to its server: leave it out")
    builder = SparkSession.builder.remote(master)
    ours = {name: value for name, value in SETTINGS.items() if name.startswith("spark.sql.")}
    for name, value in {**ours, **settings}.items():
        builder = builder.config(name, value)
    return builder


def _bounded(builder: Any, master: str, log: Path) -> SparkSession:
    """Make the session, or report within ``START_S`` why there is none."""
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
    lines = ["no answer"]
    if errors:
        lines = [(str(errors[0]) or type(errors[0]).__name__).splitlines()[0]]
        with contextlib.suppress(OSError):  # Java's own output is more informative
            said = log.read_text(encoding="utf-8", errors="replace").splitlines()
            lines += [line for line in said if re.search(r"\bERROR\b|Exception|Error:", line)]
    raise UserError(f"Spark did not start on {master}: {lines[-1].strip()[:300]}")


def _stop(session: SparkSession) -> None:
    """End the session and its Java, so that the next one of this process starts cleanly."""
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


@contextlib.contextmanager
def _variables(wanted: Mapping[str, str | None]) -> Iterator[None]:
    """Environment variables for the processes started in a block; None: without that one."""
    before = {name: os.environ.pop(name, None) for name in wanted}
    os.environ.update({name: value for name, value in wanted.items() if value is not None})
    try:
        yield
    finally:
        for name in wanted:
            os.environ.pop(name, None)
        os.environ.update({name: value for name, value in before.items() if value is not None})


def scratch_base() -> Path:
    """A directory on a disk, for data that do not fit into memory."""
    places = [os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0], "/var/tmp"]
    usable = [place for place in places if place and os.access(place, os.W_OK)]
    return Path(usable[0] if usable else tempfile.gettempdir())


def _scratch() -> Path:
    """A directory for Spark's spills; those of dead processes are removed."""
    base = scratch_base()
    try:
        return own_directory(base, "precedes-spark-")
    except OSError as error:
        raise UserError(
            f"Spark cannot work in {base}: {error.strerror}; name a directory with SPARK_LOCAL_DIRS"
        ) from None


def write_archive(path: Path) -> None:
    """Write the contents of the package, without compiled modules and pages, as a zip."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(sources.PACKAGE.rglob("*")):
            is_shown = file.is_relative_to(sources.SHARE)
            if not file.is_file() or is_shown or "__pycache__" in file.parts:
                continue
            entry = zipfile.ZipInfo(file.relative_to(sources.PACKAGE).as_posix(), DATE)
            entry.external_attr = MODE
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)


def _send(session: SparkSession, folder: Path) -> None:
    """Make the executors of a session import this package, from an archive made in this folder.

    Spark unpacks an archive into a folder of the name given, and puts the folder that holds it
    first on the path of modules. An archive of the package's inside, unpacked as ``precedes``, is
    therefore what executors import, whatever else is installed there: as files, which digests of
    sources and the cache of compiled code need, and a ``--py-files`` archive would not be.

    The file is read for the lifetime of the session.
    """
    path = folder / f"{sources.PACKAGE.name}-{sources.digest_of_runs()[:12]}.zip"
    write_archive(path)
    named = f"{path}#{sources.PACKAGE.name}"
    context = context_of(session)
    if context is None:
        session.addArtifacts(named, archive=True)
    else:
        context.addArchive(named)


@contextlib.contextmanager
def _unlogged() -> Iterator[None]:
    """Silence Spark's Python logs of calls and queries that fail, which it raises as well.

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

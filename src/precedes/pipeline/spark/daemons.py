"""``precedes spark``: the daemons of a standalone cluster, from the installed package.

Nothing here imports what the command needs: the command line answers at once.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any, Final, NoReturn

LOOPBACK: Final = "127.0.0.1"
CLASSES: Final = {
    "master": "org.apache.spark.deploy.master.Master",
    "worker": "org.apache.spark.deploy.worker.Worker",
}


def add_spark(commands: Any) -> None:
    """Add the command that starts a master or a worker."""
    parser = commands.add_parser(
        "spark",
        help="start the master or a worker of a Spark cluster on this machine",
        description="Start a daemon of Spark's standalone cluster; it runs until it is ended. "
        "Messages go to standard error. See docs/pipeline.md.",
    )
    daemons = parser.add_subparsers(dest="daemon", required=True, metavar="master|worker")
    master = daemons.add_parser("master", help="gives workers to applications")
    master.add_argument("--port", type=int, default=7077, metavar="PORT", help="(7077)")
    worker = daemons.add_parser("worker", help="runs tasks")
    worker.add_argument("master", metavar="spark://HOST:PORT", help="of the master")
    worker.add_argument("--cores", type=int, metavar="N", help="tasks at once (all cores)")
    worker.add_argument("--memory", metavar="SIZE", help="for Java, as 2g (all but 1g)")
    worker.add_argument("--work-dir", type=Path, metavar="DIR", help="for its files")
    for daemon in (master, worker):
        daemon.add_argument(
            "--host", default=LOOPBACK, metavar="ADDRESS", help="to listen on (127.0.0.1)"
        )
        daemon.add_argument(
            "--webui-port", type=int, default=0, metavar="PORT", help="of its pages (any free one)"
        )
        daemon.set_defaults(run=_start)


def _start(options: argparse.Namespace) -> NoReturn:
    """Become the daemon: signals, the process number and the exit status are its own."""
    from precedes.errors import UserError
    from precedes.pipeline.spark import java
    from precedes.pipeline.spark.session import require_pyspark

    require_pyspark()
    import pyspark

    home = Path(pyspark.__file__).parent
    given = {
        "--host": options.host,
        "--port": getattr(options, "port", None),
        "--webui-port": options.webui_port,
        "--cores": getattr(options, "cores", None),
        "--memory": getattr(options, "memory", None),
        "--work-dir": getattr(options, "work_dir", None),
    }
    line = [str(home / "bin" / "spark-class"), CLASSES[options.daemon]]
    for name, value in given.items():
        line += [] if value is None else [name, str(value)]
    line += [options.master] if options.daemon == "worker" else []
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "JAVA_HOME": str(java.java_home()),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_LOCAL_IP": options.host,
    }
    sys.stdout.flush()
    try:
        os.execve(line[0], line, environment)
    except OSError as error:
        raise UserError(f"cannot start {line[0]}: {error.strerror}") from None

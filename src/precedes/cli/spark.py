"""``precedes spark``: the daemons of a standalone cluster, from the installed package."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from precedes.cli.common import Commands


def add(commands: Commands) -> None:
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
            "--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (127.0.0.1)"
        )
        daemon.add_argument(
            "--webui-port", type=int, default=0, metavar="PORT", help="of its pages (any free one)"
        )
        daemon.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> NoReturn:
    from precedes.pipeline.spark import daemons

    daemons.become(
        options.daemon,
        host=options.host,
        webui_port=options.webui_port,
        port=getattr(options, "port", None),
        cores=getattr(options, "cores", None),
        memory=getattr(options, "memory", None),
        work_dir=getattr(options, "work_dir", None),
        master=getattr(options, "master", None),
    )

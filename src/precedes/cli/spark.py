"""``precedes spark``: the daemons of a standalone cluster, and a server of Spark Connect."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, NoReturn

from precedes.cli.common import add_conf, settings_of
from precedes.stores import local_path

if TYPE_CHECKING:
    from precedes.cli.common import Commands


def add(commands: Commands) -> None:
    """Add the command that starts a master, a worker or a server."""
    parser = commands.add_parser(
        "spark",
        help="start the master or a worker of a Spark cluster, or a Connect server, here",
        description="Start a daemon of Spark's; it runs until it is ended (Ctrl-C, or SIGTERM, "
        "after which executors end too). Messages go to standard error. See 'precedes docs "
        "pipeline'.",
    )
    daemons = parser.add_subparsers(dest="daemon", required=True, metavar="master|worker|connect")
    master = daemons.add_parser("master", help="gives workers to applications")
    master.add_argument(
        "--port", type=int, default=7077, metavar="PORT", help="(7077; 0: any free one)"
    )
    worker = daemons.add_parser("worker", help="runs tasks")
    worker.add_argument("master", metavar="spark://HOST:PORT", help="of the master")
    worker.add_argument("--cores", type=int, metavar="N", help="tasks at once (all cores)")
    worker.add_argument("--memory", metavar="SIZE", help="for Java, as 2g (all but 1g)")
    worker.add_argument("--port", type=int, metavar="PORT", help="(any free one)")
    worker.add_argument("--work-dir", type=local_path, metavar="DIR", help="for its files")
    for daemon in (master, worker):
        daemon.add_argument(
            "--webui-port", type=int, default=0, metavar="PORT", help="of its pages (any free one)"
        )
        daemon.set_defaults(run=_run)
    connect = daemons.add_parser("connect", help="runs what clients send: sc://HOST:PORT")
    connect.add_argument(
        "--port", type=int, default=15002, metavar="PORT", help="(15002; 0: any free one)"
    )
    connect.add_argument(
        "--master", default="local[*]", metavar="URL", help="where tasks run (local[*])"
    )
    add_conf(connect)
    connect.set_defaults(run=_run_server)
    for daemon in (master, worker, connect):
        daemon.add_argument(
            "--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (127.0.0.1)"
        )


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


def _run_server(options: argparse.Namespace) -> NoReturn:
    from precedes.pipeline.spark import daemons

    daemons.become_server(
        host=options.host,
        port=options.port,
        master=options.master,
        settings=settings_of(options),
    )

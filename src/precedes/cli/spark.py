"""``precedes spark``: the daemons of a standalone cluster, and a server of Spark Connect."""

from __future__ import annotations

import argparse
import os
import re
from typing import NoReturn

from precedes.cli import common
from precedes.stores import local_path


def add(commands: common.Commands) -> None:
    """Add the command that starts a master, a worker or a server."""
    parser = commands.add_parser(
        "spark",
        help="start the master or a worker of a Spark cluster, or a Connect server, here",
        description="Start a daemon of Spark's; it runs until it is ended (Ctrl-C, or SIGTERM, "
        "after which executors end too). Messages go to standard error. See 'precedes docs "
        "pipeline'.",
        epilog=common.examples(
            ("spark master", "on this machine, at spark://127.0.0.1:7077"),
            ("spark worker spark://127.0.0.1:7077", "that takes its tasks"),
        ),
    )
    daemons = parser.add_subparsers(dest="daemon", required=True, metavar="master|worker|connect")
    for daemon in (_add_master(daemons), _add_worker(daemons), _add_connect(daemons)):
        daemon.add_argument(
            "--host", default="127.0.0.1", metavar="ADDRESS", help="to listen on (127.0.0.1)"
        )
        common.add_json(daemon, help="print JSON about the process, then be it")


def _add_master(daemons: common.Commands) -> argparse.ArgumentParser:
    parser = daemons.add_parser(
        "master",
        help="gives workers to applications",
        epilog=common.examples(
            ("spark master", "at spark://127.0.0.1:7077"),
            ("spark master --port 0 --host 192.0.2.7", "for others, on a free port"),
        ),
    )
    parser.add_argument(
        "--port", type=int, default=7077, metavar="PORT", help="(7077; 0: any free one)"
    )
    _add_pages(parser)
    return parser


def _add_worker(daemons: common.Commands) -> argparse.ArgumentParser:
    parser = daemons.add_parser(
        "worker",
        help="runs tasks",
        epilog=common.examples(
            ("spark worker spark://127.0.0.1:7077", "of this machine"),
            ("spark worker spark://192.0.2.7:7077 --cores 2", "two tasks at once"),
        ),
    )
    parser.add_argument("master", type=_url, metavar="spark://HOST:PORT", help="of the master")
    parser.add_argument("--cores", type=int, metavar="N", help="tasks at once (all cores)")
    parser.add_argument("--memory", metavar="SIZE", help="for Java, as 2g (all but 1g)")
    parser.add_argument("--port", type=int, metavar="PORT", help="(any free one)")
    parser.add_argument("--work-dir", type=local_path, metavar="DIR", help="for its files")
    _add_pages(parser)
    return parser


def _url(text: str) -> str:
    """The address of a master, for argparse: Java would say in a hundred lines that it is none."""
    if not re.fullmatch(r"spark://[^/\s]+:\d+(,[^/\s]+:\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not spark://HOST:PORT")
    return text


def _add_pages(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--webui-port", type=int, default=0, metavar="PORT", help="of its pages (any free one)"
    )
    parser.set_defaults(run=_run)


def _add_connect(daemons: common.Commands) -> argparse.ArgumentParser:
    parser = daemons.add_parser(
        "connect",
        help="runs what clients send: sc://HOST:PORT",
        epilog=common.examples(
            ("spark connect", "on all cores"),
            ("spark connect --master spark://127.0.0.1:7077", "on a cluster"),
        ),
    )
    parser.add_argument(
        "--port", type=int, default=15002, metavar="PORT", help="(15002; 0: any free one)"
    )
    parser.add_argument(
        "--master", default="local[*]", metavar="URL", help="where tasks run (local[*])"
    )
    common.add_conf(parser)
    parser.set_defaults(run=_run_server)
    return parser


def _run(options: argparse.Namespace) -> NoReturn:
    from precedes.pipeline.spark import daemons

    names = ("webui_port", "port", "cores", "memory", "work_dir")
    daemons.become(
        options.daemon,
        host=options.host,
        master=getattr(options, "master", None),
        announce=lambda: _announce(options),
        **{name: getattr(options, name, None) for name in names},
    )


def _run_server(options: argparse.Namespace) -> NoReturn:
    from precedes.pipeline.spark import daemons

    daemons.become_server(
        host=options.host,
        port=options.port,
        master=options.master,
        settings=common.pairs_of(options, "conf"),
        announce=lambda: _announce(options),
    )


def _announce(options: argparse.Namespace) -> None:
    """Tell a program what this process becomes; a port that Spark chooses is not known yet."""
    if options.json:
        daemon, host, port = options.daemon, options.host, options.port or None
        common.show_json({"daemon": daemon, "host": host, "port": port, "process": os.getpid()})

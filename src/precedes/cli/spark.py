"""``precedes spark``: the daemons of a standalone cluster, and a server of Spark Connect."""

from __future__ import annotations

import argparse
import os
import re
from typing import Final, NoReturn

from precedes.cli import common
from precedes.cli.common import option
from precedes.stores import local_path

PAGES: Final = "port of the web UI (any free port)"


def add(commands: common.Commands) -> None:
    """Add the command that starts a master, a worker or a server."""
    parser = common.command(
        commands,
        "spark",
        _run,
        ("spark master", "on this machine, at spark://127.0.0.1:7077"),
        ("spark worker spark://127.0.0.1:7077", "a worker for it"),
        help="start a Spark master, worker or Connect server",
        description="Start a Spark daemon. It runs until it receives Ctrl-C or SIGTERM, which also "
        "end its executors. It logs to standard error. See 'precedes docs clusters'.",
    )
    daemons = parser.add_subparsers(dest="daemon", required=True, metavar="master|worker|connect")
    for daemon in (_add_master(daemons), _add_worker(daemons), _add_connect(daemons)):
        option(daemon, "--host", "ADDRESS", "address to listen on (127.0.0.1)", default="127.0.0.1")
        common.add_json(daemon, help="print JSON about the process first")


def _add_master(daemons: common.Commands) -> argparse.ArgumentParser:
    parser = common.command(
        daemons,
        "master",
        _run,
        ("spark master", "at spark://127.0.0.1:7077"),
        ("spark master --port 0 --host 192.0.2.7", "reachable from outside, on a free port"),
        help="assign workers to applications",
    )
    option(parser, "--port", "PORT", "port to listen on (7077; 0: any free port)", int, 7077)
    option(parser, "--webui-port", "PORT", PAGES, int, 0)
    return parser


def _add_worker(daemons: common.Commands) -> argparse.ArgumentParser:
    parser = common.command(
        daemons,
        "worker",
        _run,
        ("spark worker spark://127.0.0.1:7077", "for a local master"),
        ("spark worker spark://192.0.2.7:7077 --cores 2", "at most two tasks at a time"),
        help="run tasks",
    )
    option(parser, "master", "spark://HOST:PORT", "address of the master", _url)
    option(parser, "--cores", "N", "concurrent tasks (number of cores)", int)
    option(parser, "--memory", "SIZE", "memory for Java, e.g. 2g (all but 1g)")
    option(parser, "--port", "PORT", "port to listen on (any free port)", int)
    option(parser, "--work-dir", "DIR", "directory for files of the worker", local_path)
    option(parser, "--webui-port", "PORT", PAGES, int, 0)
    return parser


def _url(text: str) -> str:
    """Parse the address of a master for argparse; Java would print a stack trace instead."""
    if not re.fullmatch(r"spark://[^/\s]+:\d+(,[^/\s]+:\d+)*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not spark://HOST:PORT")
    return text


def _add_connect(daemons: common.Commands) -> argparse.ArgumentParser:
    parser = common.command(
        daemons,
        "connect",
        _run_server,
        ("spark connect", "on all cores"),
        ("spark connect --master spark://127.0.0.1:7077", "on a cluster"),
        help="runs what clients send: sc://HOST:PORT",
    )
    option(parser, "--port", "PORT", "(15002; 0: any free one)", int, 15002)
    option(parser, "--master", "URL", "where tasks run (local[*])", default="local[*]")
    common.add_conf(parser)
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
    """Report the kind of process that this one becomes; a port that Spark chooses is unknown."""
    if options.json:
        daemon, host, port = options.daemon, options.host, options.port or None
        common.show_json({"daemon": daemon, "host": host, "port": port, "process": os.getpid()})

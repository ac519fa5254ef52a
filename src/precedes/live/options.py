"""Options of ``precedes node``, ``precedes cluster`` and ``precedes keys``.

Nothing here imports what the commands need: the command line answers at once.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any


def add_live(commands: Any) -> None:
    """Add the commands of live groups."""
    _add_node(commands)
    _add_cluster(commands)
    _add_keys(commands)


def _add_node(commands: Any) -> None:
    parser = commands.add_parser(
        "node",
        help="take part in a live group: broadcast lines, print what is delivered",
        description="Lines from standard input are broadcast, delivered ones printed. A file "
        "describes the group (docs/live.md), or --member and --address once for each member.",
    )
    parser.add_argument("--group", type=Path, metavar="FILE", help="a TOML file that all share")
    parser.add_argument(
        "--member", type=int, required=True, metavar="I", help="who this is, from 0"
    )
    parser.add_argument(
        "--address", action="append", default=[], metavar="HOST:PORT", help="of member 0, 1, ..."
    )
    parser.add_argument("--protocol", metavar="P", help="vector (default), vcube, ...")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--keys", type=Path, metavar="DIR", help="keys made by 'precedes keys'")
    parser.add_argument("--insecure", action="store_true", help="listen beyond loopback in clear")
    parser.add_argument("--trace", type=Path, metavar="DIR", help="log this member's events there")
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve /metrics and /health")
    parser.add_argument("--json", action="store_true", help="print deliveries as JSON lines")
    parser.add_argument("--verbose", action="store_true", help="log what happens to the group")
    parser.set_defaults(run=_node)


def _add_cluster(commands: Any) -> None:
    parser = commands.add_parser(
        "cluster",
        help="run a group of processes on this machine, with load and faults, and audit it",
        description="Exit status 0: the protocol kept what it promises, 1: it did not, 3: unknown.",
    )
    parser.add_argument("-n", "--members", type=int, default=8, metavar="N", help="processes (8)")
    parser.add_argument("--protocol", default="vector", metavar="P", help="vector (default), ...")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--seconds", type=float, default=10.0, metavar="S", help="of load (10)")
    parser.add_argument("--rate", type=float, metavar="R", help="broadcasts/s of all; none: most")
    parser.add_argument("--payload", type=int, default=100, metavar="BYTES", help="(100)")
    parser.add_argument("--window", type=int, default=512, metavar="W", help="messages (512)")
    parser.add_argument(
        "--faults", type=int, metavar="SEED", help="kills, pauses, cuts, partitions"
    )
    parser.add_argument("--evict-after", type=float, default=5.0, metavar="S", help="patience (5)")
    parser.add_argument("--secure", action="store_true", help="mutual TLS, with keys made for it")
    parser.add_argument("--trace", type=Path, metavar="DIR", help="keep the logs of all members")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_cluster)


def _add_keys(commands: Any) -> None:
    parser = commands.add_parser(
        "keys", help="make a test authority and a key for each member of a group"
    )
    parser.add_argument("directory", type=Path, metavar="DIR")
    parser.add_argument("-n", "--members", type=int, required=True, metavar="N")
    parser.add_argument("--name", default="group", metavar="NAME", help="of the group (group)")
    parser.add_argument("--days", type=int, default=30, metavar="D", help="until they expire (30)")
    parser.add_argument("--force", action="store_true", help="replace keys that are there")
    parser.set_defaults(run=_keys)


def _node(options: argparse.Namespace) -> int:
    from precedes.live.commands import node

    return node(options)


def _cluster(options: argparse.Namespace) -> int:
    from precedes.live.commands import cluster

    return cluster(options)


def _keys(options: argparse.Namespace) -> int:
    from precedes.live.commands import keys

    return keys(options)

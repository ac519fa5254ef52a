"""``precedes node``, ``precedes cluster`` and ``precedes keys``: live groups."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from precedes.cli import common
from precedes.cli.follow import Told
from precedes.cli.terminal import VERDICTS
from precedes.cli.texts import cluster_text
from precedes.console import is_quiet, is_verbose, note
from precedes.errors import Exit, UserError
from precedes.progress import ProgressBar
from precedes.provenance import made_by

if TYPE_CHECKING:
    from precedes.live.config import Config


def add(commands: common.Commands) -> None:
    """Add the commands of live groups."""
    _add_node(commands)
    _add_cluster(commands)
    _add_keys(commands)


def _add_node(commands: common.Commands) -> None:
    parser = commands.add_parser(
        "node",
        help="take part in a live group: broadcast lines, print what is delivered",
        description="Lines from standard input are broadcast, delivered ones printed. A file "
        "describes the group (see 'precedes docs live'), or --member and --address once for each "
        "member.",
        epilog=common.examples(
            ("node --group examples/group.toml --member 0", "in a terminal"),
            ("node --group examples/group.toml --member 1", "in another one"),
        ),
    )
    parser.add_argument("--group", type=Path, metavar="FILE", help="a TOML file that all share")
    parser.add_argument(
        "--member", type=int, required=True, metavar="I", help="who this is, from 0"
    )
    parser.add_argument(
        "--address",
        dest="addresses",
        action="append",
        metavar="HOST:PORT",
        help="of member 0, 1, ...",
    )
    parser.add_argument("--protocol", metavar="P", help="vector (default), vcube, ...")
    common.add_parameters(parser)
    parser.add_argument("--keys", type=Path, metavar="DIR", help="keys made by 'precedes keys'")
    parser.add_argument(
        "--insecure", action="store_true", default=None, help="listen beyond loopback in clear"
    )
    parser.add_argument(
        "--trace", type=common.local_folder, metavar="DIR", help="log this member's events there"
    )
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve /metrics and /health")
    common.add_tier(parser)
    common.add_json(parser, help="print deliveries as JSON lines")
    parser.set_defaults(run=_node)


def _add_cluster(commands: common.Commands) -> None:
    parser = commands.add_parser(
        "cluster",
        help="run a group of processes on this machine, with load and faults, and audit it",
        description="Run a group of processes on this machine, and audit what they logged. Exit "
        "status 0: the protocol kept what it promises, 1: it did not, 3: unknown, or "
        "members were late.",
        epilog=common.examples(
            ("cluster -n 3 --seconds 1", "as fast as it can"),
            ("cluster -n 5 --rate 200 --faults 7", "with drawn faults"),
        ),
    )
    parser.add_argument("-n", "--members", type=int, metavar="N", help="processes (8)")
    parser.add_argument("--protocol", metavar="P", help="vector (default), vcube, ...")
    common.add_parameters(parser)
    parser.add_argument("--seconds", type=float, metavar="S", help="of load (10)")
    parser.add_argument("--rate", type=float, metavar="R", help="broadcasts/s of all; none: most")
    parser.add_argument("--payload", dest="payload_bytes", type=int, metavar="BYTES", help="(100)")
    parser.add_argument("--window", type=int, metavar="W", help="messages (512)")
    parser.add_argument(
        "--faults", type=int, metavar="SEED", help="kills, pauses, cuts, partitions"
    )
    parser.add_argument(
        "--evict-after", dest="evict_after_s", type=float, metavar="S", help="patience (5)"
    )
    parser.add_argument("--secure", action="store_true", help="mutual TLS, with keys made for it")
    parser.add_argument(
        "--trace", type=common.local_folder, metavar="DIR", help="keep the logs of all members"
    )
    parser.add_argument(
        "--follow", action="store_true", help="audit while it runs: a violation is told at once"
    )
    common.add_tier(parser)
    common.add_json(parser)
    parser.set_defaults(run=_cluster)


def _add_keys(commands: common.Commands) -> None:
    parser = commands.add_parser(
        "keys",
        help="make a test authority and a key for each member of a group",
        description="Make a test authority and a key for each member of a group: for "
        "'precedes node --keys DIR', see 'precedes docs live'.",
        epilog=common.examples(
            ("keys keys -n 3", "for members 0 to 2"),
            ("keys keys -n 3 --days 1 --force", "in their place, for a day"),
        ),
    )
    parser.add_argument("directory", type=common.local_folder, metavar="DIR")
    parser.add_argument("-n", "--members", type=int, required=True, metavar="N", help="how many")
    parser.add_argument("--name", default="group", metavar="NAME", help="of the group (group)")
    parser.add_argument("--days", type=int, default=30, metavar="D", help="until they expire (30)")
    parser.add_argument("--force", action="store_true", help="replace keys that are there")
    common.add_json(parser)
    parser.set_defaults(run=_keys)


def _node(options: argparse.Namespace) -> int:
    import logging

    from precedes.live import console

    usual = logging.ERROR if is_quiet() else logging.WARNING
    level = logging.INFO if is_verbose() else usual
    logging.basicConfig(level=level, format="precedes: %(message)s", stream=sys.stderr)
    return console.run(_config(options), head=made_by() if options.json else None)


def _config(options: argparse.Namespace) -> Config:
    from precedes.live.config import Config, from_toml
    from precedes.live.net.security import Security

    given = common.given_of(options, Config)
    if options.tier == "auto":  # that is up to the group's file
        del given["tier"]
    if options.trace is not None:
        given["trace"] = str(options.trace)
    if parameters := common.pairs_of(options, "set"):
        given["parameters"] = parameters
    if options.keys is not None:
        given["security"] = Security.in_directory(options.keys, member=options.member)
    if options.group is not None:
        return from_toml(options.group, **given)
    if not options.addresses:
        raise UserError("name the group with --group FILE, or --address once for each member")
    return Config(**given)


def _cluster(options: argparse.Namespace) -> int:
    from precedes.live.cluster.run import Cluster, run

    parameters = common.pairs_of(options, "set")
    cluster = Cluster(**common.given_of(options, Cluster), parameters=parameters)
    watch = Told(is_json=options.json, is_brief=True).tell if options.follow else None
    with ProgressBar("cluster") as bar:
        phases = _Phases(bar)
        found = run(cluster, directory=options.trace, watch=watch, progress=phases.update)
        phases.change("")
    common.answer(options, found, cluster_text(found), VERDICTS)
    return Exit.of(found["verdict"])


class _Phases:
    """A cluster by its phases: drawn on a terminal, and noted with the seconds that each took."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._phase = ""
        self._began_s = 0.0

    def update(self, phase: str, taken_s: float, planned_s: float | None) -> None:
        """So long in a phase, of so many seconds if they are planned."""
        self.change(phase)
        label = f"cluster, {phase}"
        if planned_s is None:
            self._bar(0.0 if phase == "starting" else 1.0, label=label)
        else:
            taken_s = min(taken_s, planned_s)
            label = f"{label}, {taken_s:.0f} of {planned_s:g} s"
            self._bar(taken_s / planned_s, label=label)

    def change(self, phase: str) -> None:
        """Another phase has begun; none, if it is empty."""
        if phase == self._phase:
            return
        if self._phase:
            note(f"cluster, {self._phase}: {time.monotonic() - self._began_s:.2f} s")
        self._phase, self._began_s = phase, time.monotonic()


def _keys(options: argparse.Namespace) -> int:
    from precedes.live.net.security import key_files, make_keys

    if not 1 <= options.members <= 1024:
        raise UserError(f"a group has 1 to 1024 members, not {options.members}")
    if options.days < 1:
        raise UserError(f"keys are good for a day or more, not {options.days}")
    existing = [path for path in key_files(options.directory, options.members) if path.exists()]
    if existing and not options.force:
        raise UserError(
            f"{existing[0]} is there already: name another directory, or replace it with --force"
        )
    make_keys(options.directory, group=options.name, members=options.members, days=options.days)
    found = {
        "directory": str(options.directory),
        "group": options.name,
        "members": options.members,
        "days": options.days,
        "files": [path.name for path in key_files(options.directory, options.members)],
    }
    text = f"authority and keys of {options.members:,} members in {options.directory}"
    return common.answer(options, found, text)

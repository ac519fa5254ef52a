"""``precedes node``, ``precedes cluster`` and ``precedes keys``: live groups."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precedes.cli import common
from precedes.cli.audit import Told
from precedes.cli.common import flag, option
from precedes.cli.terminal import VERDICTS
from precedes.console import is_quiet, is_verbose, note, say
from precedes.errors import Exit, UserError
from precedes.frames import LABEL, UNKNOWN, counts, times
from precedes.progress import ProgressBar
from precedes.provenance import made_by

if TYPE_CHECKING:
    from precedes.live.config import Config


def add_node(commands: common.Commands) -> None:
    """Add ``precedes node``."""
    parser = common.command(
        commands,
        "node",
        _node,
        ("node --group examples/group.toml --member 0", "in a terminal"),
        ("node --group examples/group.toml --member 1", "in another one"),
        help="take part in a live group: broadcast lines, print what is delivered",
        description="Lines from standard input are broadcast, delivered ones printed. A file "
        "describes the group (see 'precedes docs live'), or --member and --address once for each "
        "member.",
    )
    option(parser, "--group", "FILE", "a TOML file that all share", Path)
    option(parser, "--member", "I", "who this is, from 0", int, required=True)
    help = "of member 0, 1, ..."
    option(parser, "--address", "HOST:PORT", help, dest="addresses", action="append")
    option(parser, "--protocol", "P", "vector (default), vcube, ...")
    common.add_parameters(parser)
    option(parser, "--keys", "DIR", "keys made by 'precedes keys'", Path)
    option(parser, "--listen", "HOST:PORT", "listen there, not at the member's address")
    flag(parser, "--insecure", "listen beyond loopback in clear", default=None)
    option(parser, "--trace", "DIR", "log this member's events there", common.local_folder)
    option(parser, "--metrics", "HOST:PORT", "serve /metrics and /health")
    common.add_tier(parser)
    common.add_json(parser, help="print deliveries as JSON lines")


def add_cluster(commands: common.Commands) -> None:
    """Add ``precedes cluster``."""
    parser = common.command(
        commands,
        "cluster",
        _cluster,
        ("cluster -n 3 --seconds 1", "as fast as it can"),
        ("cluster -n 5 --rate 200 --faults 7", "with drawn faults"),
        help="run a group of processes on this machine, with load and faults, and audit it",
        description="Run a group of processes on this machine, and audit what they logged. Exit "
        "status 0: the protocol kept what it promises, 1: it did not, 3: unknown, or "
        "members were late.",
    )
    parser.add_argument("-n", "--members", type=int, metavar="N", help="processes (8)")
    option(parser, "--protocol", "P", "vector (default), vcube, ...")
    common.add_parameters(parser)
    option(parser, "--seconds", "S", "of load (10)", float)
    option(parser, "--rate", "R", "broadcasts/s of all; none: most", float)
    option(parser, "--payload", "BYTES", "(100)", int, dest="payload_bytes")
    option(parser, "--window", "W", "messages (512)", int)
    option(parser, "--faults", "SEED", "kills, pauses, cuts, partitions", int)
    option(parser, "--evict-after", "S", "patience (5)", float, dest="evict_after_s")
    flag(parser, "--secure", "mutual TLS, with keys made for it")
    option(parser, "--trace", "DIR", "keep the logs of all members", common.local_folder)
    flag(parser, "--follow", "audit while it runs: a violation is told at once")
    common.add_tier(parser)
    common.add_json(parser)


def add_keys(commands: common.Commands) -> None:
    """Add ``precedes keys``."""
    parser = common.command(
        commands,
        "keys",
        _keys,
        ("keys keys -n 3", "for members 0 to 2"),
        ("keys keys -n 3 --days 1 --force", "in their place, for a day"),
        help="make a test authority and a key for each member of a group",
        description="Make a test authority and a key for each member of a group: for "
        "'precedes node --keys DIR', see 'precedes docs live'.",
    )
    option(parser, "directory", "DIR", None, common.local_folder)
    parser.add_argument("-n", "--members", type=int, required=True, metavar="N", help="how many")
    option(parser, "--name", "NAME", "of the group (group)", default="group")
    option(parser, "--days", "D", "until they expire (30)", int, 30)
    flag(parser, "--force", "replace keys that are there")
    common.add_json(parser)


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
    if found["tier"] != "compiled" and options.tier == "auto":
        how = (
            "interpreted" if found["tier"] == "interpreted" else "interpreted for some of the time"
        )
        say(f"members ran {how}: compiled, a group does a hundred times as much")
    common.answer(options, found, cluster_text(found), VERDICTS)
    return Exit.of(found["verdict"])


def cluster_text(found: Mapping[str, Any]) -> str:
    """A group of processes, from what ``precedes cluster --json`` prints."""
    wrong = (
        f"{found['violations']:,} out of order, {found['lost']:,} lost, "
        f"{found['duplicates']:,} twice, {found['phantom']:,} from nowhere"
    )
    bound = f"messages at a member, at most (bound {found['pending_bound']:,})"
    lines = [
        f"{found['verdict']}: {found['protocol']}, {found['members']} processes",
        *counts(
            ("broadcasts", found["broadcasts"], ""),
            ("deliveries", found["deliveries"], wrong),
            ("throughput", found["deliveries_per_s"], "deliveries/s"),
            ("", found["deliveries_per_core_s"], "deliveries per core-second"),
            ("pending", found["pending_max"], bound),
        ),
        *_cluster_latency(found),
        *_faults(found["faults"]),
    ]
    if found["faults"]:
        lines.append(f"{'members':{LABEL}}{_ends(found['ended'])}")
    lines += [f"  member {who} did not end in time" for who in found["hung"]]
    for who in found["unexpected"]:
        lines.append(f"  member {who} ended unexpectedly: {found['ended'][str(who)]}")
    return "\n".join([*lines, *(f"  - {sentence}" for sentence in found["witnesses"])])


def _cluster_latency(found: Mapping[str, Any]) -> list[str]:
    rows = {"of all": (found["p50_ms"], found["p99_ms"])}
    if found["disturbed_s"]:
        rows["calm times"] = (found["p50_undisturbed_ms"], found["p99_undisturbed_ms"])
    lines = times("latency, ms", ("p50", "p99"), rows)
    if not lines:
        return [f"{'latency':{LABEL}}not known: no message was measured"]
    if found["disturbed_s"]:
        lines.append(
            f"{'disturbed':{LABEL}}{found['disturbed_s']:.1f} s, in which somebody was missing, "
            "until it came back or was evicted"
        )
    return lines


def _faults(faults: Sequence[Mapping[str, Any]]) -> list[str]:
    if not faults:
        return []
    lines = [f"{'faults':{LABEL}}{'at s':>7}{'for s':>8}  kind       members"]
    for fault in faults:
        length = f"{fault['for_s']:.2f}" if fault["for_s"] else UNKNOWN
        who = ", ".join(map(str, fault["members"]))
        lines.append(f"{'':{LABEL}}{fault['at_s']:>7.2f}{length:>8}  {fault['kind']:9}  {who}")
    return lines


def _ends(ended: Mapping[str, str]) -> str:
    """How members ended, those together that did so in the same way."""
    by_end: dict[str, list[str]] = defaultdict(list)
    for who, how in ended.items():
        by_end["ended with the group" if how == "all" else how].append(who)
    return "; ".join(f"{', '.join(who)} {how}" for how, who in by_end.items())


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
    members = "1 member" if options.members == 1 else f"{options.members:,} members"
    text = f"authority and keys of {members} in {options.directory}"
    return common.answer(options, found, text)

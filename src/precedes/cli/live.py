"""``precedes node``, ``precedes cluster`` and ``precedes keys``: live groups."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precedes.cli.common import (
    add_json,
    add_members,
    add_parameters,
    add_protocol,
    add_rate,
    add_tier,
    add_trace,
    given,
    parameters_of,
)
from precedes.cli.follow import Told
from precedes.cli.terminal import VERDICTS, show_text
from precedes.console import show
from precedes.errors import Exit, UserError
from precedes.stores import local_path

if TYPE_CHECKING:
    from precedes.cli.common import Commands
    from precedes.live.config import Config


def add(commands: Commands) -> None:
    """Add the commands of live groups."""
    _add_node(commands)
    _add_cluster(commands)
    _add_keys(commands)


def _add_node(commands: Commands) -> None:
    parser = commands.add_parser(
        "node",
        help="take part in a live group: broadcast lines, print what is delivered",
        description="Lines from standard input are broadcast, delivered ones printed. A file "
        "describes the group (see 'precedes docs live'), or --member and --address once for each "
        "member.",
    )
    parser.add_argument("--group", type=Path, metavar="FILE", help="a TOML file that all share")
    parser.add_argument(
        "--member", type=int, required=True, metavar="I", help="who this is, from 0"
    )
    parser.add_argument(
        "--address", action="append", default=[], metavar="HOST:PORT", help="of member 0, 1, ..."
    )
    add_protocol(parser)
    add_parameters(parser)
    parser.add_argument("--keys", type=Path, metavar="DIR", help="keys made by 'precedes keys'")
    parser.add_argument("--insecure", action="store_true", help="listen beyond loopback in clear")
    add_trace(parser, help="log this member's events there", local=True)
    parser.add_argument("--metrics", metavar="HOST:PORT", help="serve /metrics and /health")
    add_tier(parser)
    add_json(parser, help="print deliveries as JSON lines")
    parser.add_argument("--verbose", action="store_true", help="log what happens to the group")
    parser.set_defaults(run=_node)


def _add_cluster(commands: Commands) -> None:
    parser = commands.add_parser(
        "cluster",
        help="run a group of processes on this machine, with load and faults, and audit it",
        description="Exit status 0: the protocol kept what it promises, 1: it did not, 3: unknown.",
    )
    add_members(parser, help="processes (8)")
    add_protocol(parser)
    add_parameters(parser)
    parser.add_argument("--seconds", type=float, metavar="S", help="of load (10)")
    add_rate(parser, help="broadcasts/s of all; none: most")
    parser.add_argument("--payload", type=int, metavar="BYTES", help="(100)")
    parser.add_argument("--window", type=int, metavar="W", help="messages (512)")
    parser.add_argument(
        "--faults", type=int, metavar="SEED", help="kills, pauses, cuts, partitions"
    )
    parser.add_argument("--evict-after", type=float, metavar="S", help="patience (5)")
    parser.add_argument("--secure", action="store_true", help="mutual TLS, with keys made for it")
    add_trace(parser, help="keep the logs of all members", local=True)
    parser.add_argument(
        "--follow", action="store_true", help="audit while it runs: a violation is told at once"
    )
    add_tier(parser)
    add_json(parser)
    parser.set_defaults(run=_cluster)


def _add_keys(commands: Commands) -> None:
    parser = commands.add_parser(
        "keys", help="make a test authority and a key for each member of a group"
    )
    parser.add_argument("directory", type=local_path, metavar="DIR")
    add_members(parser, required=True, help="how many")
    parser.add_argument("--name", default="group", metavar="NAME", help="of the group (group)")
    parser.add_argument("--days", type=int, default=30, metavar="D", help="until they expire (30)")
    parser.add_argument("--force", action="store_true", help="replace keys that are there")
    parser.set_defaults(run=_keys)


def _node(options: argparse.Namespace) -> int:
    import logging

    from precedes.live import console

    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(level=level, format="precedes: %(message)s", stream=sys.stderr)
    return console.run(_config(options), json_lines=options.json)


def _config(options: argparse.Namespace) -> Config:
    from precedes.live.config import Config, from_toml
    from precedes.live.net.security import Security

    keys, member = options.keys, options.member
    more = given(
        protocol=options.protocol,
        parameters=parameters_of(options) or None,
        trace=None if options.trace is None else str(options.trace),
        metrics=options.metrics,
        # What is not said is up to the group's file.
        tier=None if options.tier == "auto" else options.tier,
        insecure=options.insecure or None,
        addresses=tuple(options.address) or None,
        security=None if keys is None else Security.in_directory(keys, member=member),
    )
    if options.group is not None:
        return from_toml(options.group, member=member, **more)
    if not options.address:
        raise UserError("name the group with --group FILE, or --address once for each member")
    return Config(**{"member": member, **more})


def _cluster(options: argparse.Namespace) -> int:
    from precedes.live.cluster.run import Cluster, run

    cluster = given(
        members=options.members,
        protocol=options.protocol,
        parameters=parameters_of(options),
        seconds=options.seconds,
        rate=options.rate,
        payload_bytes=options.payload,
        window=options.window,
        faults=options.faults,
        evict_after_s=options.evict_after,
        secure=options.secure,
        tier=options.tier,
    )
    watch = Told(is_json=options.json, is_brief=True).tell if options.follow else None
    found = run(Cluster(**cluster), directory=options.trace, watch=watch)
    if options.json:
        show(json.dumps(found))
    else:
        show_text(_to_text(found), VERDICTS)
    return Exit.of(found["verdict"])


def _to_text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['verdict']}: {found['protocol']}, {found['members']} processes, "
        f"{found['broadcasts']:,} broadcasts, {found['deliveries']:,} deliveries",
        f"throughput  {found['deliveries_per_s']:,.0f} deliveries/s, "
        f"{found['deliveries_per_core_s']:,.0f} per core-second",
        f"latency     {_latency(found, 'ms')}",
        f"pending     at most {found['pending_max']:,} at a member "
        f"(bound {found['pending_bound']:,})",
        f"audit       {found['violations']:,} out of order, {found['lost']:,} lost, "
        f"{found['duplicates']:,} twice, {found['phantom']:,} from nowhere",
    ]
    if found["disturbed_s"]:
        lines[3:3] = [
            f"  while nobody was missing: {_latency(found, 'undisturbed_ms')}; in "
            f"{found['disturbed_s']:.1f} s somebody was, until it came back or was evicted"
        ]
    for fault in found["faults"]:
        who = ", ".join(map(str, fault["members"]))
        for_s = f" for {fault['for_s']:.2f} s" if fault["for_s"] else ""
        lines.append(f"fault       {fault['at_s']:.2f} s: {fault['kind']} {who}{for_s}")
    if found["faults"]:
        ended = " ".join(f"{who}:{how}" for who, how in found["ended"].items())
        lines.append(f"members     {ended}")
    for who in found["hung"]:
        lines.append(f"  member {who} did not end")
    for who in found["unexpected"]:
        lines.append(f"  member {who} ended unexpectedly: {found['ended'][str(who)]}")
    lines += [f"  - {sentence}" for sentence in found["witnesses"]]
    return "\n".join(lines)


def _latency(found: dict[str, Any], kind: str) -> str:
    if found[f"p50_{kind}"] is None:
        return "not known: no message was measured"
    return f"p50 {found[f'p50_{kind}']:.2f} ms, p99 {found[f'p99_{kind}']:.2f} ms"


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
    show(f"authority and keys of {options.members} members in {options.directory}")
    return Exit.DONE

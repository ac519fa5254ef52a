"""What ``precedes node``, ``precedes cluster`` and ``precedes keys`` do."""

from __future__ import annotations

import argparse
import json
import logging
import sys
from pathlib import Path
from typing import Any

from precedes.console import show
from precedes.errors import Exit, UserError
from precedes.live import console
from precedes.live.cluster import run as clusters
from precedes.live.config import Config, Security, from_toml
from precedes.live.net.security import key_files, make_keys


def node(options: argparse.Namespace) -> int:
    """Broadcast lines, print what is delivered."""
    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(level=level, format="precedes: %(message)s", stream=sys.stderr)
    return console.run(_config(options), json_lines=options.json)


def _config(options: argparse.Namespace) -> Config:
    given = {
        "protocol": options.protocol,
        "parameters": _assignments(options.set) or None,
        "trace": None if options.trace is None else str(options.trace),
        "metrics": options.metrics,
        "insecure": options.insecure or None,
        "addresses": tuple(options.address) or None,
        "security": None if options.keys is None else _keys_in(options.keys, options.member),
    }
    more = {name: value for name, value in given.items() if value is not None}
    if options.group is not None:
        return from_toml(options.group, member=options.member, **more)
    if not options.address:
        raise UserError("name the group with --group FILE, or --address once for each member")
    return Config(**{"member": options.member, **more})


def _keys_in(directory: Path, member: int) -> Security:
    return Security(
        authority=str(directory / "authority.pem"),
        certificate=str(directory / f"member-{member}.pem"),
        key=str(directory / f"member-{member}.key"),
    )


def _assignments(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UserError(f"--set takes NAME=VALUE, not {name!r}")
    return {name: value for name, _, value in pairs}


def cluster(options: argparse.Namespace) -> int:
    """Run a cluster and print what came of it."""
    found = clusters.run(
        clusters.Cluster(
            members=options.members,
            protocol=options.protocol,
            parameters=_assignments(options.set),
            seconds=options.seconds,
            rate=options.rate,
            payload_bytes=options.payload,
            window=options.window,
            faults=options.faults,
            evict_after_s=options.evict_after,
            secure=options.secure,
        ),
        directory=options.trace,
    )
    show(json.dumps(found) if options.json else _to_text(found))
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


def keys(options: argparse.Namespace) -> int:
    """Make keys for a group."""
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

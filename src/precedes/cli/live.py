"""``precedes node``, ``members``, ``cluster`` and ``keys``: live groups."""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from precedes.cli import common
from precedes.cli.audit import StandingPrinter
from precedes.cli.common import flag, option
from precedes.cli.terminal import VERDICTS
from precedes.console import is_quiet, is_verbose, note, say
from precedes.errors import Exit, UserError
from precedes.frames import LABEL, UNKNOWN, counted, counts, noun, times
from precedes.model import printable
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
        ("node --group examples/group.toml --member 0", "in one terminal"),
        ("node --group examples/group.toml --member 1", "in another terminal"),
        ("node --founders a,b --member c --address HOST:PORT --seed HOST:PORT", "joins a and b"),
        help="run one member of a live group from the terminal",
        description="Run one member of a live group: broadcast lines from standard input and print "
        "deliveries. Describe the group with --group FILE (see 'precedes docs live'), with "
        "--founders, --address and --seed, or with --address once for each member.",
    )
    option(parser, "--group", "FILE", "TOML file, the same for all members", Path)
    option(parser, "--member", "NAME", "name of this member, or its number from 0", required=True)
    help = "names of the first members, or N for PREFIX-0 to PREFIX-(N-1)"
    option(parser, "--founders", "A,B,...", help)
    help = "address of this member; or of members 0, 1, ..."
    option(parser, "--address", "HOST:PORT", help, dest="addresses", action="append")
    help = "address of some member, to find the others"
    option(parser, "--seed", "HOST:PORT", help, dest="seeds", action="append")
    option(parser, "--protocol", "P", "vector (default), vcube, ...")
    common.add_parameters(parser)
    option(parser, "--keys", "DIR", "directory of keys ('precedes keys')", Path)
    option(parser, "--listen", "HOST:PORT", "listening address (default: that of the member)")
    flag(parser, "--insecure", "allow unencrypted traffic beyond loopback", default=None)
    option(parser, "--trace", "DIR", "log events to this directory", common.local_folder)
    help = "serve /metrics, /health and /members there"
    option(parser, "--metrics", "HOST:PORT", help)
    common.add_tier(parser)
    common.add_json(parser, help="print deliveries as JSON lines")


def add_members(commands: common.Commands) -> None:
    """Add ``precedes members``."""
    parser = common.command(
        commands,
        "members",
        _members,
        ("members 127.0.0.1:9100", "ask the member with these metrics"),
        ("members orders-0:9100 --json", "for programs"),
        help="show the view of a live group",
        description="Show the view of a live group as one of its members has it: members, votes, "
        "and who is suspected, disconnected or missing for a quorum. The member serves metrics "
        "at the address (see 'precedes docs live').",
    )
    option(parser, "address", "HOST:PORT", "metrics address of a member")
    common.add_json(parser)


def add_cluster(commands: common.Commands) -> None:
    """Add ``precedes cluster``."""
    parser = common.command(
        commands,
        "cluster",
        _cluster,
        ("cluster -n 3 --seconds 1", "maximum load for a second"),
        ("cluster -n 5 --rate 200 --faults 7", "with random faults"),
        help="run a local group with load and faults, and audit it",
        description="Run a group of processes on this machine and audit their logs. Exit status 0: "
        "the guarantee of the protocol held, 1: it was violated, 3: unknown, or members were late.",
    )
    parser.add_argument("-n", "--members", type=int, metavar="N", help="number of processes (8)")
    option(parser, "--protocol", "P", "vector (default), vcube, ...")
    common.add_parameters(parser)
    option(parser, "--seconds", "S", "length of the load in seconds (10)", float)
    option(parser, "--rate", "R", "broadcasts per second of the group (default: maximum)", float)
    option(
        parser,
        "--payload",
        "BYTES",
        "payload of a message in bytes (100)",
        int,
        dest="payload_bytes",
    )
    option(parser, "--window", "W", "window of a member in messages (512)", int)
    option(parser, "--faults", "SEED", "inject random kills, pauses, cuts and partitions", int)
    flag(parser, "--rolling-restart", "replace all processes, one after the other")
    option(parser, "--churn", "SEED", "let random members join, leave, crash and restart", int)
    help = "evict a member after S seconds of silence (5)"
    option(parser, "--evict-after", "S", help, float, dest="evict_after_s")
    flag(parser, "--secure", "use mutual TLS with temporary keys")
    option(parser, "--trace", "DIR", "keep the logs in this directory", common.local_folder)
    flag(parser, "--follow", "audit while the group runs")
    flag(parser, "--watch", "serve a live page of the group on loopback")
    common.add_tier(parser)
    common.add_json(parser)


def add_keys(commands: common.Commands) -> None:
    """Add ``precedes keys``."""
    parser = common.command(
        commands,
        "keys",
        _keys,
        ("keys keys -n 3", "keys for members 0 to 2"),
        ("keys keys -n 3 --days 1 --force", "replace them, valid for a day"),
        ("keys keys --names a,b --keep-authority", "keys for members a and b"),
        ("keys keys --names c", "and later for c"),
        help="create a test authority and a key for each member",
        description="Create a test authority and a key for each member of a group, for "
        "'precedes node --keys DIR' (see 'precedes docs live'). If the directory has an authority "
        "with its key, add keys of more members.",
    )
    option(parser, "directory", "DIR", None, common.local_folder)
    members = parser.add_mutually_exclusive_group(required=True)
    help = "number of members"
    members.add_argument("-n", "--members", type=int, metavar="N", help=help)
    option(members, "--names", "A,B,...", "names of members")
    option(parser, "--name", "NAME", "name of the group (group)")
    option(parser, "--days", "D", "days until the keys expire (30)", int, 30)
    flag(parser, "--keep-authority", "keep the authority's key, to add members later")
    flag(parser, "--force", "replace existing keys")
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

    settings = common.values_of(options, Config)
    if options.tier == "auto":  # that is up to the group's file
        del settings["tier"]
    if options.trace is not None:
        settings["trace"] = str(options.trace)
    if parameters := common.pairs_of(options, "set"):
        settings["parameters"] = parameters
    if options.keys is not None:
        settings["security"] = Security.in_directory(options.keys, member=options.member)
    if options.founders is not None:
        founders = options.founders
        settings["founders"] = int(founders) if founders.isdecimal() else founders.split(",")
    if options.addresses and len(options.addresses) == 1:
        (settings["address"],) = settings.pop("addresses")
    if options.group is not None:
        return from_toml(options.group, **settings)
    if not options.addresses and options.founders is None:
        raise UserError(
            "name the group with --group FILE, with --founders, --address and --seed, or with "
            "--address once for each member"
        )
    return Config(**settings)


def _members(options: argparse.Namespace) -> int:
    from precedes.live.status import fetch_status

    status = fetch_status(options.address)
    return common.answer(options, status, members_text(status))


def members_text(status: Mapping[str, Any]) -> str:
    """A view and its members, from the output of ``precedes members --json``."""
    lines = [
        f"member {status['member']} of group {status['group']}, epoch {status['epoch']}: "
        f"{status['health']}"
    ]
    lines += [f"  {problem}" for problem in status["problems"]]
    rows: list[tuple[str, ...]] = [("number", "name", "vote", "address", "")]
    for one in status["members"]:
        notes = [] if one["vote"] else ["learner"]
        notes += [kind for kind in ("suspected", "disconnected") if one["name"] in status[kind]]
        vote = "yes" if one["vote"] else "no"
        cells = map(str, (one["number"], one["name"], vote, one["address"], ", ".join(notes)))
        rows.append(tuple(cells))
    if status["members"]:
        widths = [max(len(row[at]) for row in rows) for at in range(4)]
        for number, *texts in rows:
            padded = [text.ljust(width) for text, width in zip(texts, widths[1:], strict=False)]
            lines.append("  ".join([number.rjust(widths[0]), *padded, texts[-1]]).rstrip())
    if status["blocked"]:
        lines.append(f"blocked: no quorum without {', '.join(map(str, status['blocked']))}")
    return "\n".join(printable(line) for line in lines)


def _cluster(options: argparse.Namespace) -> int:
    from precedes.live.cluster.run import Cluster, run

    parameters = common.pairs_of(options, "set")
    cluster = Cluster(**common.values_of(options, Cluster), parameters=parameters)
    watch = StandingPrinter(is_json=options.json, is_brief=True).show if options.follow else None
    page = None
    if options.watch and cluster.is_changing:
        raise UserError("the live page shows a fixed group: leave out --watch")
    if options.watch:
        from precedes.live.cluster.live_page import LivePage
        from precedes.viewer.page import watch_page

        page = LivePage(watch_page(), protocol=cluster.protocol, members=cluster.members)
        say(f"live page: {page.url}")
    with ProgressBar("cluster") as bar:
        phases = _Phases(bar)
        result = run(
            cluster, directory=options.trace, watch=watch, page=page, progress=phases.update
        )
        phases.change("")
    if result["tier"] != "compiled" and options.tier == "auto":
        how = (
            "interpreted" if result["tier"] == "interpreted" else "interpreted for some of the time"
        )
        say(f"members ran {how}: compiled, a group does a hundred times as much")
    common.answer(options, result, cluster_text(result), VERDICTS)
    return Exit.of(result["verdict"])


def cluster_text(result: Mapping[str, Any]) -> str:
    """A group of processes, from the output of ``precedes cluster --json``."""
    wrong = (
        f"{result['violations']:,} out of order, {result['lost']:,} lost, "
        f"{result['duplicates']:,} twice, {result['phantom']:,} from nowhere"
    )
    pending = noun(result["pending_max"], "message")
    lines = [
        f"{result['verdict']}: {result['protocol']}, {result['members']} processes",
        *counts(
            ("broadcasts", result["broadcasts"], ""),
            ("deliveries", result["deliveries"], wrong),
            ("throughput", result["deliveries_per_s"], "deliveries/s"),
            ("", result["deliveries_per_core_s"], "deliveries per core-second"),
            (
                "max pending",
                result["pending_max"],
                f"{pending} per member (bound {result['pending_bound']:,})",
            ),
        ),
        *_cluster_latency(result),
        *_changes(result),
        *_faults(result["faults"]),
    ]
    if result["faults"]:
        lines.append(f"{'members':{LABEL}}{_ends(result['ended'])}")
    lines += [f"  member {member} did not end in time" for member in result["hung"]]
    for member in result["unexpected"]:
        lines.append(f"  member {member} ended unexpectedly: {result['ended'][str(member)]}")
    sentences = [*result["witnesses"], *result["view_findings"], *result.get("problems", ())]
    return "\n".join([*lines, *(f"  - {sentence}" for sentence in sentences)])


def _cluster_latency(result: Mapping[str, Any]) -> list[str]:
    rows = {"of all": (result["p50_ms"], result["p99_ms"])}
    if result["disturbed_s"]:
        rows["calm times"] = (result["p50_undisturbed_ms"], result["p99_undisturbed_ms"])
    lines = times("latency, ms", ("p50", "p99"), rows)
    if not lines:
        return [f"{'latency':{LABEL}}not known: no message was measured"]
    if result["disturbed_s"]:
        lines.append(
            f"{'disturbed':{LABEL}}{result['disturbed_s']:.1f} s, in which a member was missing, "
            "until it returned or was evicted"
        )
    return lines


def _changes(result: Mapping[str, Any]) -> list[str]:
    """Members that were replaced or joined, if the group had any."""
    if "views" not in result:
        return []
    members = result["members_at_end"]
    lines = counts(
        ("views", result["views"], ""),
        ("restarts", result["restarts"], ""),
        ("joins", result["joins"], f"{len(members)} members at the end: {', '.join(members)}"),
    )
    change_ms = result["view_change_ms"]
    if change_ms["p50"] is not None:
        row = {"deliveries": (change_ms["p50"], change_ms["p99"])}
        lines += times("longest gap at a change, ms", ("p50", "p99"), row)
    if result["states"] > 1:
        lines.append(f"  members ended with {result['states']} different states")
    return lines


def _faults(faults: Sequence[Mapping[str, Any]]) -> list[str]:
    if not faults:
        return []
    lines = [f"{'faults':{LABEL}}{'at s':>7}{'for s':>8}  kind       members"]
    for fault in faults:
        length = f"{fault['for_s']:.2f}" if fault["for_s"] else UNKNOWN
        members = ", ".join(map(str, fault["members"]))
        lines.append(f"{'':{LABEL}}{fault['at_s']:>7.2f}{length:>8}  {fault['kind']:9}  {members}")
    return lines


def _ends(ended: Mapping[str, str]) -> str:
    """The ends of members, grouped by kind."""
    by_end: dict[str, list[str]] = defaultdict(list)
    for member, how in ended.items():
        by_end["ended with the group" if how == "all" else how].append(member)
    return "; ".join(f"{', '.join(members)} {how}" for how, members in by_end.items())


class _Phases:
    """A cluster by its phases: drawn on a terminal, and noted with their durations."""

    def __init__(self, bar: ProgressBar) -> None:
        self._bar = bar
        self._phase = ""
        self._began_s = 0.0

    def update(self, phase: str, elapsed_s: float, planned_s: float | None) -> None:
        """Update the time in a phase, and its planned duration if there is one."""
        self.change(phase)
        label = f"cluster, {phase}"
        if planned_s is None:
            self._bar(0.0 if phase == "starting" else 1.0, label=label)
        else:
            elapsed_s = min(elapsed_s, planned_s)
            label = f"{label}, {elapsed_s:.0f} of {planned_s:g} s"
            self._bar(elapsed_s / planned_s, label=label)

    def change(self, phase: str) -> None:
        """Begin another phase; none, if it is empty."""
        if phase == self._phase:
            return
        if self._phase:
            note(f"cluster, {self._phase}: {time.monotonic() - self._began_s:.2f} s")
        self._phase, self._began_s = phase, time.monotonic()


def _keys(options: argparse.Namespace) -> int:
    from precedes.live.net.security import AUTHORITY, add_keys, key_files, make_keys

    members = options.members if options.names is None else options.names.split(",")
    count = members if isinstance(members, int) else len(members)
    directory = options.directory
    if not 1 <= count <= 1024:
        raise UserError(f"a group has 1 to 1024 members, not {count}")
    if options.days < 1:
        raise UserError(f"keys are good for a day or more, not {options.days}")
    authority, *files = key_files(directory, members)
    kept = directory / f"{AUTHORITY}.key"
    existing = [path for path in files if path.exists()]
    # An authority that was kept signs more keys; a new one is asked for with both options.
    is_added = kept.exists() and not (options.force and options.keep_authority)
    if existing and not options.force:
        raise UserError(
            f"{existing[0]} is there already: name another directory, or replace it with --force"
        )
    if authority.exists() and not kept.exists() and not options.force:
        raise UserError(
            f"{directory} has an authority without its key, so no member can be added: replace the "
            "keys of all members with --force, and --keep-authority to add members later"
        )
    group = options.name or "group"
    if is_added:
        group = add_keys(directory, group=options.name, members=members, days=options.days)
    else:
        make_keys(
            directory,
            group=group,
            members=members,
            days=options.days,
            keep_authority=options.keep_authority,
        )
    written = files if is_added else [authority, *files]
    if options.keep_authority and not is_added:
        written.append(kept)
    values = {
        "directory": str(directory),
        "group": group,
        "members": count,
        "days": options.days,
        "files": [path.name for path in written],
    }
    subject = "keys" if is_added else "authority and keys"
    return common.answer(options, values, f"{subject} of {counted(count, 'member')} in {directory}")

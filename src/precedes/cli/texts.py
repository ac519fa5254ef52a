"""Runs and clusters as text: a table of counts, one of times, each number with its unit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from precedes.sim.result import Result
    from precedes.stores import Address

Count = tuple[str, float | None, str]  # a label, a number (None: not known), a remark

LABEL: Final = 12
NUMBER: Final = 13  # columns of a number, unless one is longer
UNKNOWN: Final = "-"


def run_text(result: Result, *, trace: Address | None = None) -> str:
    """A simulated run."""
    each = result.bytes_sent / result.packets if result.packets else 0.0
    lost = "an unknown number" if result.lost is None else f"{result.lost:,}"
    twice = "" if result.duplicates is None else f", {result.duplicates:,} twice"
    wrong, latency = result.violations, result.latency
    times = {
        "to receive": (latency.reception_mean, None, None),
        "to deliver": (latency.delivery_mean, latency.p50, latency.p99),
    }
    lines = [
        f"{result.protocol}: {result.nodes:,} nodes, seed {result.seed}, "
        f"{result.simulated_s:,.1f} s simulated",
        *_counts(
            ("broadcasts", result.broadcasts, ""),
            ("deliveries", result.deliveries, f"{lost} lost{twice}"),
            ("out of order", None, "not counted (--no-oracle)")
            if wrong is None
            else ("out of order", wrong.deliveries, f"deliveries, of {wrong.messages:,} messages"),
            ("packets", result.packets, f"with {result.messages_sent:,} messages"),
            ("bytes sent", result.bytes_sent, f"{each:,.1f} a packet"),
            ("pending", result.pending_max, "messages at a node, at most"),
        ),
        *_times("latency, ms", ("mean", "p50", "p99"), times),
        f"{'time':{LABEL}}{result.cpu_s:.2f} s of CPU",
    ]
    if trace is not None:
        lines.append(f"{'trace':{LABEL}}{trace}")
    return "\n".join(lines)


def cluster_text(found: Mapping[str, Any]) -> str:
    """A group of processes, from what ``precedes cluster --json`` prints."""
    wrong = (
        f"{found['violations']:,} out of order, {found['lost']:,} lost, "
        f"{found['duplicates']:,} twice, {found['phantom']:,} from nowhere"
    )
    bound = f"messages at a member, at most (bound {found['pending_bound']:,})"
    lines = [
        f"{found['verdict']}: {found['protocol']}, {found['members']} processes",
        *_counts(
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
    lines = _times("latency, ms", ("p50", "p99"), rows)
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


def _counts(*rows: Count) -> list[str]:
    """Counts below each other, each with its unit or what else is said of it."""
    numbers = [UNKNOWN if count is None else f"{count:,.0f}" for _, count, _ in rows]
    width = max(NUMBER, *map(len, numbers))
    return [
        f"{label:{LABEL}}{number:>{width}}  {remark}".rstrip()
        for (label, _, remark), number in zip(rows, numbers, strict=True)
    ]


def _times(
    title: str, heads: Iterable[str], rows: Mapping[str, Sequence[float | None]]
) -> list[str]:
    """Times under their heads; nothing if none is known."""
    known = {label: row for label, row in rows.items() if any(cell is not None for cell in row)}
    if not known:
        return []
    lines = [f"{title:{LABEL}}" + "".join(f"{head:>{NUMBER}}" for head in heads)]
    for label, row in known.items():
        cells = ("" if cell is None else f"{cell:,.2f}" for cell in row)
        lines.append(f"  {label:{LABEL - 2}}" + "".join(f"{cell:>{NUMBER}}" for cell in cells))
    return [line.rstrip() for line in lines]

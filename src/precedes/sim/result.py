"""The result of a run: counts, errors, latencies."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from precedes import frames
from precedes.frames import counted, noun
from precedes.sim.scenario import from_echo
from precedes.stores import Place

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from precedes.audit import Report
    from precedes.viewer.inline import Diagram


@dataclass(frozen=True)
class Latency:
    """Milliseconds from a broadcast to its receptions and deliveries; None: there were none."""

    reception_mean: float | None
    delivery_mean: float | None
    p50: float | None
    p99: float | None


@dataclass(frozen=True)
class Violations:
    """Deliveries out of causal order, and distinct messages with one: papers count either."""

    deliveries: int
    messages: int


@dataclass(frozen=True)
class Result:
    """The outcome of a run; ``as_dict`` is what ``simulate --json`` prints."""

    protocol: str
    nodes: int
    seed: int
    tier: str  # compiled, interpreted, or mixed: interpreted at first
    broadcasts: int
    deliveries: int
    packets: int
    messages_sent: int
    packets_by_messages: list[int]  # packets that carry 0, 1, 2, .. messages; the last: or more
    packets_by_bytes: list[int]  # packets of up to 100, 200, .. bytes; the last: of more than 1,500
    nodes_by_largest_packet: list[int]  # nodes whose largest packet had 0, 1, 2, .. messages
    bytes_sent: int
    violations: Violations | None  # None: the oracle was off
    lost: int | None  # None: without the oracle, duplicates are indistinguishable from new packets
    duplicates: int | None
    pending_max: int
    pending_at_end: int
    latency: Latency
    cpu_s: float
    wall_s: float
    simulated_s: float
    complete: bool  # the run quiesced by itself
    extra: dict[str, float]
    # Measurements of every 10 s; the 64th: or later. On a radio of every second, 1200 at most.
    series: dict[str, list[float]]
    scenario: dict[str, Any]
    trace: str | None = field(default=None, compare=False)  # the file with the trace of the run

    @property
    def title(self) -> str:
        """The run in a few words."""
        return f"{self.protocol}: {self.nodes:,} nodes, seed {self.seed}"

    def write_trace(self, path: Place) -> None:
        """Write the trace of the run; the scenario runs again for it, with the same outcome."""
        from precedes.sim.runs import simulate

        simulate(from_echo(self.scenario), trace=str(path))

    def audit(self, *, witnesses: int = 5) -> Report:
        """The exact verdict on the run, from its trace; without one, the scenario runs again."""
        from precedes.audit import audit

        return audit(self, witnesses=witnesses)

    def view(self, **options: Any) -> Diagram:
        """The space-time diagram of the run; options are those of ``precedes.view``."""
        from precedes import view

        return view(self, **options)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; the name of the trace is not among them."""
        return {name: value for name, value in asdict(self).items() if name != "trace"}

    def as_row(self) -> dict[str, Any]:
        """The single numbers, under the names of the table of runs that a sweep writes."""
        wrong, latency = self.violations, self.latency
        return {
            "protocol": self.protocol,
            "nodes": self.nodes,
            "seed": self.seed,
            "broadcasts": self.broadcasts,
            "deliveries": self.deliveries,
            "packets": self.packets,
            "messages_sent": self.messages_sent,
            "bytes_sent": self.bytes_sent,
            "violating_deliveries": None if wrong is None else wrong.deliveries,
            "violating_messages": None if wrong is None else wrong.messages,
            "lost": self.lost,
            "duplicates": self.duplicates,
            "pending_max": self.pending_max,
            "pending_at_end": self.pending_at_end,
            "reception_ms_mean": latency.reception_mean,
            "delivery_ms_mean": latency.delivery_mean,
            "delivery_ms_p50": latency.p50,
            "delivery_ms_p99": latency.p99,
            "simulated_s": self.simulated_s,
            "complete": self.complete,
            **{f"extra_{name}": value for name, value in self.extra.items()},
        }

    def __str__(self) -> str:
        """The table that ``precedes simulate`` prints."""
        each = self.bytes_sent / self.packets if self.packets else 0.0
        lost = "an unknown number" if self.lost is None else f"{self.lost:,}"
        twice = "" if self.duplicates is None else f", {self.duplicates:,} twice"
        wrong, latency = self.violations, self.latency
        out_of_order: tuple[int | None, str] = (None, "not counted: the oracle was off")
        if wrong is not None:
            deliveries = noun(wrong.deliveries, "delivery", "deliveries")
            out_of_order = (
                wrong.deliveries,
                f"{deliveries}, of {counted(wrong.messages, 'message')}",
            )
        times = {
            "to receive": (latency.reception_mean, None, None),
            "to deliver": (latency.delivery_mean, latency.p50, latency.p99),
        }
        lines = [
            f"{self.title}, {self.simulated_s:,.1f} s simulated",
            *frames.counts(
                ("broadcasts", self.broadcasts, self._why_fewer()),
                ("deliveries", self.deliveries, f"{lost} lost{twice}"),
                ("out of order", *out_of_order),
                ("packets", self.packets, f"with {counted(self.messages_sent, 'message')}"),
                ("bytes sent", self.bytes_sent, f"{each:,.1f} a packet"),
                ("max pending", self.pending_max, f"{noun(self.pending_max, 'message')} per node"),
            ),
            *frames.times("latency, ms", ("mean", "p50", "p99"), times),
            f"{'time':{frames.LABEL}}{self.cpu_s:.2f} s of CPU",
        ]
        return "\n".join(lines)

    def _why_fewer(self) -> str:
        """The reason for fewer broadcasts than requested: on a radio, hosts join first."""
        skipped = self.extra.get("skipped", 0)
        joins_s = self.scenario.get("parameters", {}).get("joins_s")
        if not skipped or joins_s is None:
            return ""
        return f"{skipped:,.0f} skipped: hosts had not joined (within {joins_s:g} s) or were down"

    def to_arrow(self) -> pa.Table:
        """``as_row`` as a table of one row."""
        return frames.arrow_of([self.as_row()])

    def to_pandas(self) -> pd.DataFrame:
        """``as_row`` as a DataFrame of one row; ``pandas.concat`` combines several."""
        return frames.pandas_of(self.to_arrow())

    def _repr_html_(self) -> str:
        """HTML for a notebook: the numbers that do not vary from one run to the next."""
        wrong, latency = self.violations, self.latency
        each = max(1, self.deliveries)
        values = {
            "broadcasts": self.broadcasts,
            "deliveries": self.deliveries,
            "out of causal order": None if wrong is None else wrong.deliveries,
            "lost": self.lost,
            "latency, mean (ms)": latency.delivery_mean,
            "latency, p99 (ms)": latency.p99,
            "packets": self.packets,
            "bytes a delivery": self.bytes_sent / each,
            "max pending per node": self.pending_max,
        }
        end = "" if self.complete else "; it did not quiesce"
        title = f"{self.title}, {self.simulated_s:.1f} s simulated{end}"
        return frames.shown(frames.paragraph(title), frames.facts(values))

"""Measurements of a run on a radio: rows of its trace, verdicts, counts and the result."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from precedes.model import NANOSECONDS_PER_MS, NANOSECONDS_PER_S, EventKind, Events
from precedes.sim.engine.rows import Writer
from precedes.sim.engine.world import LATENCY_BINS, latency_bin, latency_percentile_ms
from precedes.sim.result import Latency, Result, Violations

if TYPE_CHECKING:
    from precedes.sim.radio.run import RadioRun

CHUNK_ROWS: Final = 1 << 16
MARKS_MAX: Final = 10_000
# A set of bits is copied for every delivery: beyond this, runs would take longer to judge than to
# simulate.
MESSAGES_MAX: Final = 50_000
SERIES_MAX: Final = 1200  # seconds of a series; later ones are left out
CONNECT_MAX_S: Final = 75  # TCP gives up after it (section V-A of Wilhelm et al. 2020)

# Values of every second: buffers at its end, the rest since the one before.
SERIES: Final = (
    *("stored", "stored_at_fault", "stored_elsewhere", "early"),
    *("sent", "bytes", "deliveries", "delay_ms"),
)


class RadioTrace:
    """The events of a run, handed to a writer in chunks; without one it does nothing."""

    def __init__(self, writer: Writer | None, *, hosts: int, stations: int) -> None:
        self.writer = writer
        self.rows: list[tuple[int, int, int, int, int, int]] = []
        self.known = [False] * hosts  # hosts that have joined
        self.marks: list[tuple[int, int, str, int | None]] = []  # us, host, what, station
        # The source of every stamped message. Links are FIFO: a source's messages are
        # stamped in the order of their numbers, so that counts identify them.
        self.stamped: list[list[int]] = [[] for _ in range(stations)]

    def message(self, time_ns: int, host: int, kind: EventKind, source: int, number: int) -> None:
        """An event of a message; own numbers begin with 0, sequences of a trace with 1."""
        if self.writer is not None:
            self._add(time_ns, host, kind, source, number + 1)

    def stamp(self, station: int, source: int) -> None:
        """A station has stamped a message of this source."""
        if self.writer is not None:
            self.stamped[station].append(source)

    def join(self, time_ns: int, host: int, station: int, start: int) -> None:
        """A life begins with this stamp of this station: with all that it stamped before."""
        if self.writer is None:
            return
        self.known[host] = True
        self._add(time_ns, host, EventKind.JOIN, host, 0)
        for source, count in sorted(Counter(self.stamped[station][:start]).items()):
            self._add(time_ns, host, EventKind.JOIN, source, count)

    def leave(self, time_ns: int, host: int) -> None:
        """A life ends."""
        if self.writer is not None:
            self._add(time_ns, host, EventKind.LEAVE, host, 0)

    def mark(self, time_ns: int, host: int, kind: str, station: int | None = None) -> None:
        """Record a fact about a host that is not an event of a member; the first are kept."""
        if self.writer is not None and len(self.marks) < MARKS_MAX:
            self.marks.append((time_ns // 1000, host, kind, station))

    def end(self, time_ns: int, down_ns: dict[int, int]) -> None:
        """End the run: hosts that are down have crashed, those that never joined are left out."""
        if self.writer is None:
            return
        for host, known in enumerate(self.known):
            if host in down_ns:
                self._add(down_ns[host], host, EventKind.CRASH, host, 0)
            elif not known:
                self.leave(time_ns, host)
        self._hand_over()

    def _add(self, time_ns: int, host: int, kind: EventKind, source: int, sequence: int) -> None:
        self.rows.append((time_ns, host, kind, source, sequence, -1))
        if len(self.rows) >= CHUNK_ROWS:
            self._hand_over()

    def _hand_over(self) -> None:
        if self.writer is None or not self.rows:
            return
        self.writer.write(Events.of(np.array(self.rows, np.int64)))
        self.rows = []


class _Oracle:
    """Judges deliveries of members that come and go: exact, by sets of bits.

    A message's past is a set of bits, the union of what its source had delivered and broadcast. A
    delivery is a violation if a message of its past is neither delivered nor before the member's
    join. What precedes a join is known from the station's own list of stamps.
    """

    def __init__(self, hosts: int, stations: int) -> None:
        self.past: list[int] = []
        self.known = [0] * hosts
        self.delivered = [0] * hosts
        self.missed = [0] * hosts
        self.stamped: list[list[int]] = [[] for _ in range(stations)]
        self.sent_by = [0] * hosts
        self.violations = 0
        self.violating: set[int] = set()
        self.duplicates = 0

    def on_broadcast(self, host: int) -> int:
        """The number of the new message."""
        message = len(self.past)
        self.past.append(self.known[host])
        self.known[host] |= 1 << message
        self.sent_by[host] |= 1 << message
        return message

    def on_stamp(self, station: int, message: int) -> None:
        """A station has given a message its next stamp."""
        self.stamped[station].append(message)

    def on_join(self, host: int, station: int, start: int) -> None:
        """A life begins with this stamp of this station."""
        before = 0
        for message in self.stamped[station][:start]:
            before |= 1 << message
        self.missed[host] = before & ~self.delivered[host]

    def on_deliver(self, host: int, message: int) -> None:
        """Judge one delivery."""
        bit = 1 << message
        has = self.delivered[host]
        if has & bit:
            self.duplicates += 1
            return
        if self.past[message] & ~(has | self.missed[host]):
            self.violations += 1
            self.violating.add(message)
        self.delivered[host] = has | bit
        self.known[host] |= bit | self.past[message]

    def lost(self, members: list[int], sources: list[int]) -> int:
        """Number of missing deliveries at ``members`` of the end that are up then.

        Own messages are due too, in a run in which one has come back to its source.
        """
        due = 0
        for source in sources:
            due |= self.sent_by[source]
        pairs = list(zip(self.delivered, self.sent_by, strict=True))
        own = any(delivered & sent for delivered, sent in pairs)
        lost = 0
        for host in members:
            lacking = due & ~(self.delivered[host] | self.missed[host])
            lost += (lacking if own else lacking & ~self.sent_by[host]).bit_count()
        return lost


class Measures:
    """Counts of one run; *measured* is the time from the warm-up to the last broadcast."""

    def __init__(self, run: RadioRun) -> None:
        self.run = run
        scenario = run.scenario
        hosts, stations = scenario.nodes, run.parameters.stations
        judged = scenario.oracle and len(run.workload) <= MESSAGES_MAX
        self.oracle = _Oracle(hosts, stations) if judged else None
        self.warm_ns = round(run.parameters.warm_up_s * NANOSECONDS_PER_S)
        self.index: dict[tuple[int, int], int] = {}
        self.born_ns: list[int] = []
        self.deliveries_of: list[int] = []
        self.living = [False] * hosts
        self.histogram = np.zeros(LATENCY_BINS, np.int64)
        self.bins: dict[int, int] = {}
        self.deliveries = self.own = self.latency_ns = 0
        self.measured_deliveries = self.measured_latency = self.measured_latency_ns = 0
        self.sent: dict[str, int] = {}
        self.by_messages: dict[int, int] = {}  # datagrams by the number of messages that they carry
        self.measured_sent = self.measured_bytes = self.sent_bytes = self.control_bytes = 0
        self.wired = self.wired_bytes = self.host_acks = 0
        self.receptions = self.receptions_lost = self.intended = self.intended_bad = 0
        self.persists = self.moves = self.skipped = self.expelled = self.joins = self.leaves = 0
        self.out_of_reach = 0
        self.faults: list[tuple[int, float]] = []
        self.samples = 0
        self.sums = dict.fromkeys(("stored", "early", "unacknowledged", "expected"), 0.0)
        self.stored_max = self.early_max = 0
        self.state_max = {"station_bytes": 0, "station_control_bytes": 0, "host_bytes": 0}
        self.series: dict[str, list[float]] = {name: [] for name in SERIES}
        self.series_from = (0, 0, 0, 0)  # totals at the last second
        self.connects_ns: dict[int, int] = {}  # host -> from its first wish to join to its life

    def _measuring(self) -> bool:
        return self.warm_ns <= self.run.now_ns <= self.run.duration_ns

    # Events.

    def on_broadcast(self, host: int, number: int) -> None:
        """A host has broadcast its message of this number."""
        self.index[host, number] = len(self.born_ns)
        self.born_ns.append(self.run.now_ns)
        if self.oracle is not None:
            self.oracle.on_broadcast(host)

    def on_stamp(self, station: int, name: tuple[int, int]) -> None:
        """A station has stamped a message."""
        if self.oracle is not None:
            self.oracle.on_stamp(station, self.index[name])

    def on_join(self, host: int, station: int, start: int) -> None:
        """A life has begun."""
        self.joins += 1
        self.connects_ns.setdefault(host, self.run.now_ns - self.run.joins_ns[host])
        self.living[host] = True
        if self.oracle is not None:
            self.oracle.on_join(host, station, start)

    def on_left(self, host: int) -> None:
        """A life has ended."""
        self.leaves += 1
        self.living[host] = False

    def on_deliver(self, host: int, source: int, number: int) -> None:
        """Count a delivery of a host; of its own messages separately."""
        message = self.index[source, number]
        if self.oracle is not None:
            self.oracle.on_deliver(host, message)
        if self._measuring():
            self.measured_deliveries += 1
        if host == source:
            self.own += 1
            return
        born_ns = self.born_ns[message]
        latency_ns = self.run.now_ns - born_ns
        self.deliveries += 1
        self.latency_ns += latency_ns
        if self.warm_ns <= born_ns:
            self.measured_latency += 1
            self.measured_latency_ns += latency_ns
        place = latency_ns >> 16
        self.bins[place] = self.bins.get(place, 0) + 1

    def on_send(self, node: int, datagram: Any, size_bytes: int) -> None:
        """Count a datagram of an antenna; those of hosts without a message are acknowledgements."""
        name = type(datagram).__name__
        self.sent[name] = self.sent.get(name, 0) + 1
        carried = self.run.protocol.messages_in(datagram)
        self.by_messages[carried] = self.by_messages.get(carried, 0) + 1
        self.sent_bytes += size_bytes
        if self._measuring():
            self.measured_sent += 1
            self.measured_bytes += size_bytes
            self.host_acks += carried == 0 and node < self.run.scenario.nodes
            self.control_bytes += self.run.protocol.control_bytes(datagram)

    def on_wire(self, size_bytes: int) -> None:
        """Count a message on a wire."""
        self.wired += 1
        self.wired_bytes += size_bytes

    def on_receptions(self, receptions: int, bad: int, intended: int, intended_bad: int) -> None:
        """Count a transmission at its end: the antennas reached, and those at which it was lost."""
        if self._measuring():
            self.receptions += receptions
            self.receptions_lost += bad
            self.intended += intended
            self.intended_bad += intended_bad

    def sample(self) -> None:
        """Sample the buffers."""
        run = self.run
        stored = [station.stored_count() for station in run.stations]
        self.stored_max = max(self.stored_max, *stored)
        early = [host.early_count() for host in run.hosts]
        passed_s = len(self.series["stored"])
        if passed_s < run.now_ns // NANOSECONDS_PER_S and passed_s < SERIES_MAX:
            self._add_second(stored, early)
        if not self._measuring():
            return
        self.early_max = max(self.early_max, *early)
        self.samples += 1
        self.sums["stored"] += sum(stored) / len(stored)
        self.sums["early"] += sum(early) / len(early)
        self.sums["unacknowledged"] += sum(h.unacknowledged_count() for h in run.hosts) / len(early)
        self.sums["expected"] += sum(s.early_count() for s in run.stations) / len(early)
        if self.samples % 10 == 1:
            self._weigh()

    def _add_second(self, stored: list[int], early: list[int]) -> None:
        totals = (sum(self.sent.values()), self.sent_bytes, self.deliveries, self.latency_ns)
        sent, size, deliveries, latency_ns = (
            now - before for now, before in zip(totals, self.series_from, strict=True)
        )
        self.series_from = totals
        faulty = max(self.run.parameters.fault_station, 0)
        row = (
            sum(stored) / len(stored),
            stored[faulty],
            max(stored[:faulty] + stored[faulty + 1 :], default=0),
            sum(early) / len(early),
            *(sent, size, deliveries),
            latency_ns / max(deliveries, 1) / NANOSECONDS_PER_MS,
        )
        for name, value in zip(SERIES, row, strict=True):
            self.series[name].append(float(value))

    def _weigh(self) -> None:
        """The size of the machines' state in bytes, as if serialised."""
        run = self.run
        each = run.parameters.message_bytes
        largest = max(station.size_bytes(each) for station in run.stations)
        self.state_max["station_bytes"] = max(self.state_max["station_bytes"], largest)
        largest = max(host.size_bytes(each) for host in run.hosts)
        self.state_max["host_bytes"] = max(self.state_max["host_bytes"], largest)
        largest = max(station.size_bytes(0) for station in run.stations)
        control = self.state_max["station_control_bytes"]
        self.state_max["station_control_bytes"] = max(control, largest)

    # The result.

    def _latency(self) -> Latency:
        for place, count in self.bins.items():
            self.histogram[latency_bin((place << 16) + (1 << 15))] += count
        mean = self.latency_ns / self.deliveries / NANOSECONDS_PER_MS if self.deliveries else None
        return Latency(
            reception_mean=None,
            delivery_mean=mean,
            p50=latency_percentile_ms(self.histogram, 0.50),
            p99=latency_percentile_ms(self.histogram, 0.99),
        )

    def _connects(self) -> dict[str, float]:
        """Times that hosts took to become members."""
        run = self.run
        took_ns = [
            self.connects_ns.get(host, max(run.now_ns - wish_ns, 0))
            for host, wish_ns in enumerate(run.joins_ns)
        ]
        return {
            "connect_ms_mean": sum(took_ns) / len(took_ns) / NANOSECONDS_PER_MS,
            "connect_ms_max": max(took_ns) / NANOSECONDS_PER_MS,
            "connects_late": sum(one > CONNECT_MAX_S * NANOSECONDS_PER_S for one in took_ns),
            "unconnected": len(took_ns) - len(self.connects_ns),
        }

    def _of_stations(self) -> dict[str, float]:
        """Counters of the stations: the maximum of those whose name says so, else the sum."""
        counters: dict[str, float] = {}
        for station in self.run.stations:
            counts: dict[str, float] = getattr(station, "counts", dict)()
            for name, value in counts.items():
                before = counters.get(name, 0)
                counters[name] = max(before, value) if name.endswith("_max") else before + value
        return counters

    def extra(self) -> dict[str, float]:
        """Figures of the radio and the buffers."""
        run = self.run
        samples = max(self.samples, 1)
        length_s = max(run.duration_ns - self.warm_ns, 1) / NANOSECONDS_PER_S
        delay_ms = self.measured_latency_ns / max(self.measured_latency, 1) / NANOSECONDS_PER_MS
        figures: dict[str, float] = {
            "delay_ms": delay_ms,
            "stored_mean": self.sums["stored"] / samples,
            "stored_max": self.stored_max,
            "early_mean": self.sums["early"] / samples,
            "early_max": self.early_max,
            "unacknowledged_mean": self.sums["unacknowledged"] / samples,
            "station_early_mean": self.sums["expected"] / samples,
            "sent_per_s": self.measured_sent / length_s,
            "bytes_per_s": self.measured_bytes / length_s,
            "acks_per_host_per_s": self.host_acks / length_s / run.scenario.nodes,
            "control_bytes_per_datagram": self.control_bytes / max(self.measured_sent, 1),
            "messages_per_delivery": self.measured_sent / max(self.measured_deliveries, 1),
            "collisions_intended": self.intended_bad / max(self.intended, 1),
            "collisions_all": self.receptions_lost / max(self.receptions, 1),
            "own_deliveries": self.own,
            "wired": self.wired,
            "wired_bytes": self.wired_bytes,
            "antenna_drops": run.access.dropped,
            "antenna_repeats": run.access.repeated,
            "antenna_gave_up": run.access.given_up,
            "moves": self.moves,
            "out_of_reach": self.out_of_reach,
            "joins": self.joins,
            "leaves": self.leaves,
            "expelled": self.expelled,
            "faults": len(self.faults),
            "skipped": self.skipped,
            "persists": self.persists,
            **{f"{name}_max": value for name, value in self.state_max.items()},
            **{f"sent_{name}": count for name, count in sorted(self.sent.items())},
            **self._connects(),
            **self._of_stations(),
        }
        return figures

    def result(self, *, cpu_s: float, wall_s: float) -> Result:
        """The outcome, in the form of every other run."""
        run, oracle = self.run, self.oracle
        scenario = run.scenario.echo()
        scenario["parameters"] = vars(run.parameters)
        scenario["drawn"] = {}
        lost = None
        if oracle is not None:
            up = [host for host in range(run.scenario.nodes) if run.up[host]]
            lost = oracle.lost([host for host in up if self.living[host]], up)
        return Result(
            protocol=run.protocol.name,
            nodes=run.scenario.nodes,
            seed=run.scenario.seed,
            tier="interpreted",
            broadcasts=len(self.born_ns),
            deliveries=self.deliveries,
            packets=sum(self.sent.values()),
            messages_sent=sum(count * many for count, many in self.by_messages.items()),
            packets_by_messages=[
                self.by_messages.get(count, 0)
                for count in range(max(self.by_messages, default=0) + 1)
            ],
            packets_by_bytes=[],
            nodes_by_largest_packet=[],
            bytes_sent=self.sent_bytes,
            violations=None
            if oracle is None
            else Violations(oracle.violations, len(oracle.violating)),
            lost=lost,
            duplicates=None if oracle is None else oracle.duplicates,
            pending_max=self.early_max,
            pending_at_end=sum(host.early_count() for host in run.hosts),
            latency=self._latency(),
            cpu_s=cpu_s,
            wall_s=wall_s,
            simulated_s=run.now_ns / NANOSECONDS_PER_S,
            complete=run._is_quiet(),
            extra=self.extra(),
            series=self.series,
            scenario=scenario,
        )

"""Tables and figures of Wilhelm et al. 2020, published beside measured."""

from __future__ import annotations

from typing import Final

from precedes.papers.measured import Measured, Results, measure, select
from precedes.papers.p004.experiments import BANDWIDTHS, FAULT_STATION, PROTOCOLS, UNKNOWN_RADIO
from precedes.papers.p004.metrics import delay_s, extra, static
from precedes.papers.p004.published import PUBLISHED
from precedes.papers.shown import Cell, Figure, Printed, Table, measured_series, published_series

ROWS: Final = (
    ("delay, s", "delay_s", delay_s),
    ("messages sent per delivery", "messages_per_delivery", extra("messages_per_delivery")),
    ("share lost where it is meant for", "collisions", extra("collisions_intended")),
    ("share lost at any antenna in reach", None, extra("collisions_all")),
    ("messages stored at a station", None, extra("stored_mean")),
    ("messages out of order at a host", None, extra("early_mean")),
)


def tables(results: Results) -> list[Table]:
    """The two loads of section V-A, published beside measured."""
    low = PUBLISHED["Section V-A, 5.6 per s"]
    rows: list[tuple[Cell, ...]] = []
    for label, key, read in ROWS:
        row: list[Cell] = [label]
        for protocol in PROTOCOLS:
            row.append(Printed(low[protocol][key]) if key else None)
            row.append(static(results, protocol, read))
        rows.append(tuple(row))
    header = tuple(f"{name}, {kind}" for name in PROTOCOLS for kind in ("published", "measured"))
    return [
        Table(
            name="Section V-A",
            header=("5.6 messages per second", *header),
            rows=tuple(rows),
            note=UNKNOWN_RADIO,
        )
    ]


def figures(results: Results) -> list[Figure]:
    """The curve over bandwidth, and Figure 8b."""
    curves = []
    for protocol in PROTOCOLS:
        points = []
        for bandwidth in BANDWIDTHS:
            runs = select(results["bandwidth"], protocol=protocol, bandwidth_bps=bandwidth)
            points.append((bandwidth, measure(delay_s, runs)))
        curves.append(measured_series(protocol, points))
    for protocol in PROTOCOLS:
        printed = PUBLISHED["Section V-A, 5.6 per s"][protocol]["delay_s"]
        ends = (BANDWIDTHS[0], BANDWIDTHS[-1])
        curves.append(published_series(f"{protocol}, published", [(x, printed) for x in ends]))
    run = results["faults"][0]
    duration_s = int(run["scenario"]["duration_s"])
    seconds = range(1, duration_s)

    def over_time(name: str) -> list[tuple[float, Measured]]:
        return [(float(second), measure(extra(f"{name}_{second}"), [run])) for second in seconds]

    return [
        Figure(
            name="Bandwidth",
            title="Delay of deliveries over the bandwidth of the radio, 5.6 messages per second",
            x_label="bits per second",
            y_label="delay, s",
            series=tuple(curves),
            alt="The mean delay of mobile and of TCP-Flooding over four bandwidths, and the two "
            "values that the paper prints for a bandwidth it does not give.",
            log_x=True,
            log_y=True,
        ),
        Figure(
            name="Figure 8",
            title=f"Messages stored while hosts of station {FAULT_STATION} fail, one run",
            x_label="time, s",
            y_label="messages stored",
            series=(
                measured_series(f"station {FAULT_STATION}", over_time("stored_at_fault")),
                measured_series("all stations, mean", over_time("stored_mean")),
            ),
            alt="The messages stored at the station of the failing hosts over time: a peak for "
            "each fault, the longer the higher, and back within seconds.",
        ),
    ]

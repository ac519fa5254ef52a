"""Tables and figures of Wilhelm et al. 2020, published beside measured.

Its plots have no readable values: where the text gives one, it is drawn beside what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from precedes.papers.measured import Measured, Results, Run, measure
from precedes.papers.p004.experiments import (
    BANDWIDTHS,
    FAULT_STATION,
    RADIOS,
    TCPS,
)
from precedes.papers.p004.metrics import (
    Reader,
    at_second,
    delay_s,
    extra,
    on_radio,
    per_delivery_until,
)
from precedes.papers.p004.published import HIGH_ITEM, LOW_ITEM, PUBLISHED
from precedes.papers.shown import (
    Cell,
    Figure,
    Printed,
    Series,
    Table,
    measured_series,
    published_series,
)

ROWS: Final = (
    ("delay, s", "delay_s", delay_s),
    ("messages sent per delivery", "messages_per_delivery", extra("messages_per_delivery")),
    ("share lost where it is meant for", "collisions", extra("collisions_intended")),
    ("share lost at any antenna in reach", "", extra("collisions_all")),
    ("messages stored at a station", "stored", extra("stored_mean")),
    ("messages out of order at a host", "early", extra("early_mean")),
    ("messages sent per s", "sent_per_s", extra("sent_per_s")),
    ("bytes sent per s", "bytes_per_s", extra("bytes_per_s")),
    ("acknowledgements of a host per s", "acks_per_s", extra("acks_per_host_per_s")),
    ("longest connect, s", "", extra("connect_ms_max", 0.001)),
)


def tables(results: Results) -> list[Table]:
    """The two loads of section V-A on both radios, and what a station keeps."""
    low, high = PUBLISHED[LOW_ITEM], PUBLISHED[HIGH_ITEM]
    return [
        _loads(results, "static", "Section V-A, 5.6 per s", low["mobile"], low["flooding"]),
        _loads(results, "load", "Section V-A, 35 per s", high, {}),
        Table(
            name="Section V-D",
            header=("hosts", "stations", "largest station, bytes", "without messages", "host"),
            rows=tuple(
                (
                    float(run["nodes"]),
                    float(run["scenario"]["parameters"]["stations"]),
                    *(
                        measure(extra(f"{name}_max"), [run])
                        for name in ("station_bytes", "station_control_bytes", "host_bytes")
                    ),
                )
                for run in results["size"]
            ),
            note="in numbers of 8 bytes and messages of 148; of one run each",
        ),
    ]


def _loads(
    results: Results,
    experiment: str,
    name: str,
    mobile: dict[str, float],
    flooding: dict[str, float],
) -> Table:
    header: list[str] = ["", "mobile, published"]
    header += [f"mobile, {radio}" for radio in RADIOS]
    header += ["flooding, published"]
    header += [f"flooding, {tcp}, {radio}" for radio in RADIOS for tcp in TCPS]
    rows: list[tuple[Cell, ...]] = []
    for label, key, read in ROWS:
        row: list[Cell] = [label, Printed(mobile[key]) if key in mobile else None]
        for radio in RADIOS:
            row.append(measure(read, on_radio(results, experiment, radio, protocol="mobile")))
        row.append(Printed(flooding[key]) if key in flooding else None)
        for radio in RADIOS:
            for tcp in TCPS.values():
                runs = on_radio(results, experiment, radio, protocol="flooding", **tcp)
                row.append(measure(read, runs))
        rows.append(tuple(row))
    return Table(name, tuple(header), tuple(rows), by_row=True)


def figures(results: Results) -> list[Figure]:
    """Figures 6 to 8 over time, and the curve over bandwidth."""
    return [*_figure_6(results), *_figure_7(results), _figure_8(results), _bandwidths(results)]


def _seconds(runs: Sequence[Run]) -> range:
    return range(1, int(runs[0]["scenario"]["duration_s"]) + 1)


def _of(name: str) -> Callable[[int], Reader]:
    return lambda second: at_second(name, second)


def _over_time(label: str, runs: Sequence[Run], read: Callable[[int], Reader]) -> Series:
    points: list[tuple[float, Measured]] = [
        (float(second), measure(read(second), runs)) for second in _seconds(runs)
    ]
    return measured_series(label, points)


def _figure_6(results: Results) -> list[Figure]:
    def lines(read: Callable[[int], Reader]) -> list[Series]:
        found = []
        for radio in RADIOS:
            runs = on_radio(results, "static", radio, protocol="mobile")
            found.append(_over_time(f"mobile, {radio}", runs, read))
        for radio in RADIOS:
            runs = on_radio(results, "static", radio, protocol="flooding")
            found.append(_over_time(f"flooding, {radio}", runs, read))
        return found

    printed = PUBLISHED[LOW_ITEM]
    ends = _seconds(results["static"])
    ratios = [
        published_series(
            f"{protocol}, published",
            [(float(x), printed[protocol]["messages_per_delivery"]) for x in (ends[0], ends[-1])],
        )
        for protocol in ("mobile", "flooding")
    ]
    said = "over time, of mobile and of TCP-Flooding (INET's TCP) on both radios"
    return [
        Figure(
            name=f"Figure 6{letter}",
            title=f"{title}, 5.6 messages per second",
            x_label="time, s",
            y_label=label,
            series=tuple(series),
            alt=f"{title} {said}: {seen}",
            log_y=is_log,
        )
        for letter, title, label, series, is_log, seen in (
            ("a", "Messages stored at a station", "messages", lines(_of("stored")), True,
             "several times as many with flooding."),
            ("b", "Bytes sent", "bytes per s", lines(_of("bytes")), False,
             "about four times as many with flooding."),
            ("c", "Messages out of order at a host", "messages", lines(_of("early")), False,
             "less than one with either."),
            ("d", "Datagrams sent per delivery until now", "datagrams",
             [*lines(per_delivery_until), *ratios], True,
             "below one with mobile, above it with flooding, and nearly constant after seconds."),
        )
    ]  # fmt: skip


def _figure_7(results: Results) -> list[Figure]:
    buffers, sent = [], []
    for radio in RADIOS:
        walking = on_radio(results, "walking", radio, mobility="waypoint")
        for label, name in (("SBuffer of a station", "stored"), ("RBuffer of a host", "early")):
            line = _over_time(f"{label}, {radio}", walking, _of(name))
            buffers.append(line)
        for label, mobility in (("walking", "waypoint"), ("standing", "static")):
            runs = on_radio(results, "walking", radio, mobility=mobility)
            sent.append(_over_time(f"{label}, {radio}", runs, _of("sent")))
    return [
        Figure(
            name="Figure 7a",
            title="Buffers while hosts walk, 25 messages per second",
            x_label="time, s",
            y_label="messages",
            series=tuple(buffers),
            alt="Messages stored at a station and out of order at a host over time, on both "
            "radios: a few dozen at the station with ALOHA at 6 Mb/s, more with carrier sense at "
            "1 Mb/s.",
        ),
        Figure(
            name="Figure 7b",
            title="Datagrams sent while hosts walk or stand, 25 messages per second",
            x_label="time, s",
            y_label="datagrams per s",
            series=tuple(sent),
            alt="Datagrams sent in every second, walking and standing, on both radios: the lines "
            "of one radio lie together, those of carrier sense at 1 Mb/s above.",
        ),
    ]


def _figure_8(results: Results) -> Figure:
    lines = []
    for radio in RADIOS:
        runs = on_radio(results, "faults", radio)[:1]
        for label, name in (
            (f"station {FAULT_STATION}", "stored_at_fault"),
            ("all stations, mean", "stored"),
        ):
            line = _over_time(f"{label}, {radio}", runs, _of(name))
            lines.append(line)
    return Figure(
        name="Figure 8",
        title=f"Messages stored while hosts of station {FAULT_STATION} fail, one run",
        x_label="time, s",
        y_label="messages stored",
        series=tuple(lines),
        alt="Messages stored at the station of the failing hosts over time. With ALOHA at 6 Mb/s "
        "a peak for each fault, the longer the higher, and back within seconds; with carrier "
        "sense at 1 Mb/s they grow without end once there are hundreds.",
        log_y=True,
    )


def _bandwidths(results: Results) -> Figure:
    lines = []
    for radio in RADIOS:
        for protocol in ("mobile", "flooding"):
            points = []
            for bandwidth in BANDWIDTHS:
                runs = on_radio(
                    results, "bandwidth", radio, protocol=protocol, bandwidth_bps=bandwidth
                )
                points.append((bandwidth, measure(delay_s, runs)))
            lines.append(measured_series(f"{protocol}, {radio.partition(' at ')[0]}", points))
    ends = (BANDWIDTHS[0], BANDWIDTHS[-1])
    for protocol in ("mobile", "flooding"):
        printed = PUBLISHED[LOW_ITEM][protocol]["delay_s"]
        lines.append(published_series(f"{protocol}, published", [(x, printed) for x in ends]))
    return Figure(
        name="Bandwidth",
        title="Delay of deliveries over the bandwidth of the radio, 5.6 messages per second",
        x_label="bits per second",
        y_label="delay, s",
        series=tuple(lines),
        alt="The mean delay of mobile and of TCP-Flooding over four bandwidths, with ALOHA and "
        "with carrier sense, and the two values that the paper prints for a bandwidth it does not "
        "give.",
        log_x=True,
        log_y=True,
    )

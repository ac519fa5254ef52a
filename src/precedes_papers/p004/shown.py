"""Tables, figures and headlines of Wilhelm et al. 2020, published and measured.

Its plots have no readable values: where the text gives one, it is drawn with what was measured.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from precedes_papers.measured import Results, Run, measure
from precedes_papers.p004 import HIGH_ITEM, LOW_ITEM, PUBLISHED
from precedes_papers.p004.experiments import (
    BANDWIDTHS,
    FAULT_STATION,
    RADIOS,
    TCPS,
    UNKNOWN_RADIO,
)
from precedes_papers.p004.metrics import (
    Reader,
    at_second,
    delay_s,
    extra,
    on_radio,
    per_delivery_until,
)
from precedes_papers.shown import (
    Cell,
    Figure,
    Headlines,
    Printed,
    Series,
    Statement,
    Table,
    measured_series,
    published_series,
)

TCP: Final = next(iter(TCPS))


def _radios(key: str) -> dict[str, str]:
    return {radio: f"{key}, {radio}" for radio in RADIOS}


HEADLINES: Final = Headlines(
    statements=(
        Statement(
            says="at 5.6 broadcasts per second a delivery takes {} with mobile",
            short="delay, mobile",
            item=LOW_ITEM,
            keys=_radios("delay in s, mobile"),
            unit="s",
        ),
        Statement(
            says="and {} with flooding over TCP",
            short="delay, flooding",
            item=LOW_ITEM,
            keys=_radios(f"delay in s, flooding, {TCP}"),
            unit="s",
        ),
        Statement(
            says="mobile sends {} datagrams for a delivery",
            short="datagrams for a delivery, mobile",
            item=LOW_ITEM,
            keys=_radios("messages sent per delivery, mobile"),
        ),
        Statement(
            says="at 35 broadcasts per second its delay is {}",
            short="delay, mobile, 35 per s",
            item=HIGH_ITEM,
            keys=_radios("delay in s, mobile"),
            unit="s",
        ),
        Statement(
            says="while hosts walk it is {}",
            short="delay, mobile, walking",
            item="Section V-B",
            keys=_radios("delay in s"),
            unit="s",
        ),
        Statement(
            says="{} deliveries are out of causal order while hosts walk and fail",
            short="deliveries out of causal order",
            item="Guarantees",
            keys=_radios("deliveries out of causal order, mobile, hosts that walk and fail"),
        ),
    ),
    figures=("Bandwidth", "Figure 6d"),
    readings=f"Two radios: {UNKNOWN_RADIO}.",
)

PROTOCOLS: Final = ("mobile", "flooding")
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
    sizes = [
        extra(f"{name}_max") for name in ("station_bytes", "station_control_bytes", "host_bytes")
    ]
    rows: list[tuple[Cell, ...]] = [
        (
            float(run["nodes"]),
            float(run["scenario"]["parameters"]["stations"]),
            *(measure(size, [run]) for size in sizes),
        )
        for run in results["size"]
    ]
    return [
        _loads(results, "static", LOW_ITEM, PUBLISHED[LOW_ITEM]),
        _loads(results, "load", HIGH_ITEM, {"mobile": PUBLISHED[HIGH_ITEM], "flooding": {}}),
        Table(
            name="Section V-D",
            header=("hosts", "stations", "largest station, bytes", "without messages", "host"),
            rows=tuple(rows),
            note="in numbers of 8 bytes and messages of 148; of one run each",
        ),
    ]


def _loads(
    results: Results, experiment: str, name: str, published: dict[str, dict[str, float]]
) -> Table:
    """A row for each quantity, a column for each protocol, TCP and radio."""
    runs = {
        f"mobile, {radio}": on_radio(results, experiment, radio, protocol="mobile")
        for radio in RADIOS
    }
    over_tcp = {
        f"flooding, {tcp}, {radio}": on_radio(
            results, experiment, radio, protocol="flooding", **TCPS[tcp]
        )
        for radio in RADIOS
        for tcp in TCPS
    }
    rows: list[tuple[Cell, ...]] = []
    for label, key, read in ROWS:
        printed = [
            Printed(published[one][key]) if key in published[one] else None for one in PROTOCOLS
        ]
        row: list[Cell] = [label]
        for one, of_protocol in zip(printed, (runs, over_tcp), strict=True):
            row += [one, *(measure(read, found) for found in of_protocol.values())]
        rows.append(tuple(row))
    header = ("", "mobile, published", *runs, "flooding, published", *over_tcp)
    return Table(name, header, tuple(rows), by_row=True)


def figures(results: Results) -> list[Figure]:
    """Figures 6 to 8 over time, and the curve over bandwidth."""
    return [*_figure_6(results), *_figure_7(results), _figure_8(results), _bandwidths(results)]


def _seconds(runs: Sequence[Run]) -> range:
    return range(1, int(runs[0]["scenario"]["duration_s"]) + 1)


def _over_time(label: str, runs: Sequence[Run], read: str | Callable[[int], Reader]) -> Series:
    """A series of the results by its name, or what is read of the runs in each second."""

    def at(second: int) -> Reader:
        return at_second(read, second) if isinstance(read, str) else read(second)

    return measured_series(label, [(float(s), measure(at(s), runs)) for s in _seconds(runs)])


def _figure_6(results: Results) -> list[Figure]:
    def lines(read: str | Callable[[int], Reader]) -> list[Series]:
        return [
            _over_time(
                f"{protocol}, {radio}", on_radio(results, "static", radio, protocol=protocol), read
            )
            for protocol in PROTOCOLS
            for radio in RADIOS
        ]

    ends = _seconds(results["static"])
    ratios = []
    for protocol in PROTOCOLS:
        ratio = PUBLISHED[LOW_ITEM][protocol]["messages_per_delivery"]
        points = [(float(x), ratio) for x in (ends[0], ends[-1])]
        ratios.append(published_series(f"{protocol}, published", points))
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
            ("a", "Messages stored at a station", "messages", lines("stored"), True,
             "several times as many with flooding."),
            ("b", "Bytes sent", "bytes per s", lines("bytes"), False,
             "about four times as many with flooding."),
            ("c", "Messages out of order at a host", "messages", lines("early"), False,
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
        standing = on_radio(results, "walking", radio, mobility="static")
        for label, name in (("SBuffer of a station", "stored"), ("RBuffer of a host", "early")):
            buffers.append(_over_time(f"{label}, {radio}", walking, name))
        for label, runs in (("walking", walking), ("standing", standing)):
            sent.append(_over_time(f"{label}, {radio}", runs, "sent"))
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
        lines += [
            _over_time(f"station {FAULT_STATION}, {radio}", runs, "stored_at_fault"),
            _over_time(f"all stations, mean, {radio}", runs, "stored"),
        ]
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
        for protocol in PROTOCOLS:
            points = []
            for bps in BANDWIDTHS:
                runs = on_radio(results, "bandwidth", radio, protocol=protocol, bandwidth_bps=bps)
                points.append((bps, measure(delay_s, runs)))
            lines.append(measured_series(f"{protocol}, {radio.partition(' at ')[0]}", points))
    ends = (BANDWIDTHS[0], BANDWIDTHS[-1])
    for protocol in PROTOCOLS:
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

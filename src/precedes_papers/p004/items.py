"""Published and measured values of Wilhelm et al. 2020, section V: figures and statements.

Its plots have no readable values: where the text gives one, it is drawn with the measured ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from precedes_papers import rules
from precedes_papers.measured import Reader, Results, Run, less, measure, paired, pooled, select
from precedes_papers.p004 import HIGH_ITEM, LOW_ITEM, PUBLISHED, metrics
from precedes_papers.p004.experiments import (
    BANDWIDTHS,
    CELLS,
    FAULT_STATION,
    GROUPS,
    LEASES_S,
    LIVES,
    LOW,
    RADIOS,
    REPEATS,
    SPACINGS,
    TCPS,
    UNKNOWN_RADIO,
    WALKING,
    WINDOWS,
)
from precedes_papers.p004.metrics import at_second, delay_s, extra, on_radio
from precedes_papers.rules import Claim
from precedes_papers.shown import (
    Cell,
    Claims,
    Figure,
    Headlines,
    Published,
    Series,
    Statement,
    Table,
    measured_series,
    published_series,
)

SHARED: Final = (
    "most of it is lost where cells overlap, when two stations send at once; how much they overlap "
    "is not published"
)
NAGLE: Final = (
    "with Nagle's rule and delayed acknowledgements; without both 1.9 datagrams are sent for a "
    "delivery, and the messages out of order double, but stay below 1"
)
BYTES: Final = "700 datagrams of 148 bytes are 0.1 MB: 4.3 MB would be 6 kB a message"
ON_DEMAND: Final = (
    '"at least one/200ms" bounds the delay of an acknowledgement, which is sent when there is '
    "something to acknowledge"
)
OVERLOAD: Final = (
    "a station that repeats 150 messages five times a second fills most of 1 Mb/s, and loses by "
    "that what it would deliver"
)
RARE: Final = (
    "a message of a host is out of order at its station only while one before it is sent again; "
    "at 25 broadcasts a second of 70 hosts the next message of a host rarely comes in that time"
)
MEMORY: Final = (
    "a station must remember every host that ever contacted it (32 bytes), or an old join or init "
    "makes a second record; the paper's algorithm does not, and fails"
)
ONE_RUN: Final = "a plot of one run, described in words"
COMPROMISE: Final = "190 m is a compromise between the figures of two loads"
FACTOR: Final = "the paper's factor is 10 at an unknown bandwidth"
PROTOCOLS: Final = ("mobile", "flooding")
# The radios by themselves, and with the first reading of the TCP.
ON_RADIO: Final = {radio: radio for radio in RADIOS}
OVER_TCP: Final = {radio: f"{next(iter(TCPS))}, {radio}" for radio in RADIOS}

HEADLINES: Final = Headlines(
    (
        Statement(
            "at 5.6 broadcasts per second a delivery takes {} with mobile",
            "delay, mobile", LOW_ITEM, "delay in s, mobile", ON_RADIO, "s",
        ),
        Statement(
            "and {} with flooding over TCP",
            "delay, flooding", LOW_ITEM, "delay in s, flooding", OVER_TCP, "s",
        ),
        Statement(
            "mobile sends {} datagrams for a delivery", "datagrams for a delivery, mobile",
            LOW_ITEM, "messages sent per delivery, mobile", ON_RADIO,
        ),
        Statement(
            "at 35 broadcasts per second its delay is {}",
            "delay, mobile, 35 per s", HIGH_ITEM, "delay in s, mobile", ON_RADIO, "s",
        ),
        Statement(
            "while hosts walk it is {}",
            "delay, mobile, walking", "Section V-B", "delay in s", ON_RADIO, "s",
        ),
        Statement(
            "{} deliveries are out of causal order while hosts walk and fail",
            "deliveries out of causal order", "Guarantees",
            "deliveries out of causal order, mobile, hosts that walk and fail", ON_RADIO,
        ),
    ),
    figures=("Bandwidth", "Figure 6d"),
    readings=f"Three radios: {UNKNOWN_RADIO}; and carrier sense with link acknowledgements.",
)  # fmt: skip


def claims(results: Results) -> Iterator[Claim]:
    """All of section V on all radios, and what is measured besides."""
    for radio in RADIOS:
        yield from _low(results, radio, "mobile", radio)
        for name, tcp in TCPS.items():
            reading = f"{name}, {radio}"
            yield from _low(results, radio, "flooding", reading, **tcp)
            yield from _against_flooding(results, radio, reading, **tcp)
        yield from _high_of_mobile(results, radio)
        for name, tcp in TCPS.items():
            yield from _high_of_flooding(results, radio, f"{name}, {radio}", **tcp)
        yield from _walking(results, radio)
        yield from _faults(results, radio)
        access = radio.partition(" at ")[0]
        for bps in BANDWIDTHS:
            runs = [
                on_radio(results, "bandwidth", radio, protocol=one, bandwidth_bps=bps)
                for one in ("flooding", "mobile")
            ]
            about = "Bandwidth", f"delay of flooding by that of mobile, {access}, {bps:g} b/s"
            yield rules.finding(about, measure(metrics.times(delay_s), *runs), reason=FACTOR)
    yield from _memory(results)
    yield from _lives(results)
    yield from _choices(results)
    for radio in RADIOS:
        traced = {("mobile, hosts that walk and fail", radio): {"protocol": "mobile"}}
        traced |= {
            ("flooding", f"{name}, {radio}"): {"protocol": "flooding", **tcp}
            for name, tcp in TCPS.items()
        }
        for (label, reading), wanted in traced.items():
            of_reading = on_radio(results, "traced", radio, **wanted)
            for phrase, against in (
                ("deliveries out of causal order", rules.CAUSAL_ORDER),
                ("deliveries missing, repeated or of nothing", rules.EXACTLY_ONCE),
            ):
                yield rules.kept(("Guarantees", f"{phrase}, {label}", reading), of_reading, against)


def _overloaded(radio: str) -> str:
    """The reason why the behaviour of stations of a radio may differ at high loads."""
    return OVERLOAD if RADIOS[radio]["mac"] == "csma" else UNKNOWN_RADIO


def _low(
    results: Results, radio: str, protocol: str, reading: str, **tcp: float
) -> Iterator[Claim]:
    """V-A, the low load."""
    runs = on_radio(results, "static", radio, protocol=protocol, **tcp)
    item, listed, is_tcp = LOW_ITEM, PUBLISHED[LOW_ITEM][protocol], protocol == "flooding"
    for quantity, name, read, rounding, reason in (
        ("delay in s", "delay_s", delay_s, 0.5 if is_tcp else 0.005, UNKNOWN_RADIO),
        ("messages sent per delivery", "messages_per_delivery", extra("messages_per_delivery"),
         0.005 if is_tcp else 0.05, NAGLE if is_tcp else UNKNOWN_RADIO),
        ("share lost in collisions", "collisions", extra("collisions_intended"), 0.005, SHARED),
    ):  # fmt: skip
        about, measured = (item, f"{quantity}, {protocol}", reading), measure(read, runs)
        yield rules.within(about, listed[name], measured, rounding=rounding, reason=reason)
    about = item, f"messages out of order at a host (RBuffer), {protocol}", reading
    yield rules.at_most(about, listed["early_below"], measure(extra("early_mean"), runs))
    about = item, f"acknowledgements of a host per s, {protocol}", reading
    acks = measure(extra("acks_per_host_per_s"), runs)
    if is_tcp:
        yield rules.finding(about, acks, reason=ON_DEMAND)
    else:
        yield rules.at_most(about, listed["acks_per_s"], acks)
        about = item, f"lost at any antenna in reach, {protocol}", reading
        yield rules.finding(about, measure(extra("collisions_all"), runs))


def _against_flooding(results: Results, radio: str, reading: str, **tcp: float) -> Iterator[Claim]:
    """V-A, the low load: where no name is given, only the direction is published."""
    runs = on_radio(results, "static", radio, protocol="flooding", **tcp)
    others = on_radio(results, "static", radio, protocol="mobile")
    listed = PUBLISHED[LOW_ITEM]
    for quantity, name, read, reason in (
        ("delay in s", "delay_s", delay_s, ""),
        ("messages sent per delivery (Fig. 6d)", "messages_per_delivery",
         extra("messages_per_delivery"), ""),
        ("share lost in collisions", "collisions", extra("collisions_intended"), ""),
        ("messages stored at a station (Fig. 6a)", "", extra("stored_mean"), ""),
        ("messages out of order at a host (Fig. 6c)", "", extra("early_mean"), NAGLE),
        ("bytes sent per s (Fig. 6b)", "", extra("bytes_per_s"), ""),
        ("bytes of a datagram", "", metrics.bytes_per_datagram, ""),
        ("acknowledgements of a host per s", "", extra("acks_per_host_per_s"), ""),
        ("variation of SBuffer over time", "", metrics.variation, UNKNOWN_RADIO),
    ):  # fmt: skip
        about = LOW_ITEM, f"flooding less mobile: {quantity}", reading
        gap = listed["flooding"][name] - listed["mobile"][name] if name else listed["more"]
        measured = paired(less(read), runs, others)
        yield rules.same_sign(about, gap, measured, is_size=bool(name), reason=reason)
    about = LOW_ITEM, "times as many messages stored as with mobile", reading
    times = paired(metrics.times(extra("stored_mean")), runs, others)
    yield rules.at_least(about, listed["copies_stored"], times, reason=UNKNOWN_RADIO)


def _high_of_mobile(results: Results, radio: str) -> Iterator[Claim]:
    """V-A, the high load."""
    item, listed, reason = HIGH_ITEM, PUBLISHED[HIGH_ITEM], _overloaded(radio)
    runs = on_radio(results, "load", radio, protocol="mobile")
    for quantity, name, read, rounding in (
        ("delay in s", "delay_s", delay_s, 0.005),
        ("messages stored at a station", "stored", extra("stored_mean"), 0.5),
        ("messages out of order at a host", "early", extra("early_mean"), 0.5),
        ("messages sent per s", "sent_per_s", extra("sent_per_s"), 50.0),
    ):
        about, measured = (item, f"{quantity}, mobile", radio), measure(read, runs)
        yield rules.within(about, listed[name], measured, rounding=rounding, reason=reason)
    about = item, "growth of SBuffer while the load lasts, mobile", radio
    growth, span = measure(metrics.growth("stored"), runs), listed["stored"]
    yield rules.within(about, listed["growth"], growth, span=span, reason=reason)
    about, sent = (item, "bytes sent per s, mobile", radio), measure(extra("bytes_per_s"), runs)
    yield rules.irreproducible(about, listed["bytes_per_s"], sent, reason=BYTES)
    about = item, "bytes of the protocol in a datagram, mobile", radio
    yield rules.finding(about, measure(extra("control_bytes_per_datagram"), runs))


def _high_of_flooding(results: Results, radio: str, reading: str, **tcp: float) -> Iterator[Claim]:
    """ "Buffers, and delivery delays, which grow indefinitely"; connections that fail."""
    listed = PUBLISHED[HIGH_ITEM]
    runs = on_radio(results, "load", radio, protocol="flooding", **tcp)
    low = on_radio(results, "static", radio, protocol="flooding", **tcp)
    mobile = on_radio(results, "load", radio, protocol="mobile")
    connect = less(extra("connect_ms_max", 0.001))
    for quantity, measured in (
        ("growth of SBuffer while the load lasts", measure(metrics.growth("stored"), runs)),
        ("growth of the delay while the load lasts, in s", measure(metrics.delay_growth_s, runs)),
        ("delay above that at 5.6 per s, in s", paired(less(delay_s), runs, low)),
        ("delay above that of mobile, in s", paired(less(delay_s), runs, mobile)),
        ("longest connect above that at 5.6 per s, in s", paired(connect, runs, low)),
    ):
        about = HIGH_ITEM, f"{quantity}, flooding", reading
        yield rules.same_sign(about, listed["more"], measured, is_size=False)

    def longest_s(every: Sequence[Run]) -> float:
        return max(float(run["extra"]["connect_ms_max"]) / 1000 for run in every)

    about = HIGH_ITEM, "s until the last host has its connection, flooding", reading
    longest = pooled(longest_s, runs)
    yield rules.at_least(about, listed["connect_s"], longest)


def _walking(results: Results, radio: str) -> Iterator[Claim]:
    """V-B."""
    listed, reason = PUBLISHED["Section V-B"], _overloaded(radio)
    standing = on_radio(results, "walking", radio, mobility="static")
    walking = on_radio(results, "walking", radio, mobility="waypoint")

    def about(statement: str) -> rules.About:
        return "Section V-B", statement, radio

    delay = measure(delay_s, walking)
    yield rules.within(about("delay in s"), listed["delay_s"], delay, rounding=0.05, reason=reason)
    added = paired(less(delay_s), walking, standing)
    yield rules.same_sign(about("delay that walking adds, in s"), listed["penalty_s"], added)
    growth, span = measure(metrics.delay_growth_s, walking), listed["delay_s"]
    whose = about("growth of the delay while hosts walk, in s")
    yield rules.within(whose, listed["growth"], growth, span=span, reason=reason)
    lost, bounds = extra("collisions_intended"), listed["collisions"]
    share, whose = measure(lost, walking), about("share lost in collisions")
    yield rules.in_range(whose, bounds, share, reason=SHARED)
    added, whose = paired(less(lost), walking, standing), about("collisions that walking adds")
    yield rules.same_sign(whose, listed["more"], added, is_size=False)
    for statement, name, read in (
        ("s within which half of the deliveries are made", "first_repeat_s", metrics.median_s),
        ("dozens of messages stored at a station (Fig. 7a)", "stored_dozens", metrics.dozens),
    ):
        yield rules.at_most(about(statement), listed[name], measure(read, walking), reason=reason)
    for statement, name in (
        ("own messages not acknowledged at a host (SBuffer)", "unacknowledged_mean"),
        ("messages of a host out of order at its station (RBuffer)", "station_early_mean"),
    ):
        measured = measure(extra(name), walking)
        yield rules.in_range(about(statement), listed["buffers"], measured, reason=RARE)
    for statement, name in (
        ("messages sent (Fig. 7b)", "sent_per_s"),
        ("messages stored at a station", "stored_mean"),
        ("messages out of order at a host", "early_mean"),
    ):
        times = paired(metrics.times(extra(name)), walking, standing)
        whose = about(f"{statement}, times those of standing hosts")
        yield rules.within(whose, listed["as_standing"], times, rounding=0.1, reason=reason)
    discarded = "messages of a handoff that the new station had discarded"
    most, mean = pooled(metrics.most_discarded, walking), pooled(metrics.discarded, walking)
    yield rules.at_most(about(f"{discarded}, most"), listed["list_up_to"], most, reason=reason)
    yield rules.finding(about(f"{discarded}, mean"), mean)
    beyond = measure(metrics.beyond_the_buffer, walking)
    longest = about("longest list of a handoff less the fullest SBuffer")
    yield rules.at_most(longest, listed["list_beyond_buffer"], beyond)
    yield rules.at_least(
        about("share of copies that one host of the cell or none has already (V-D)"),
        PUBLISHED["Section V-D"]["usually"],
        measure(metrics.one_id_or_none, walking),
    )


def _faults(results: Results, radio: str) -> Iterator[Claim]:
    """V-C; "beyond it, messages will not be delivered fast enough": growth after a long fault."""
    item, listed = "Section V-C", PUBLISHED["Section V-C"]
    runs = on_radio(results, "faults", radio)
    why = f"; {OVERLOAD}" if RADIOS[radio]["mac"] == "csma" else ""
    why = f"published are the lengths in s; the rest is in a figure{why}"
    lengths = listed["lengths_s"]
    for effect, read in (
        ("the more its station stores: peaks", metrics.peak),
        ("the longer until it is as before: s", metrics.recovery_s),
    ):
        by_fault = [measure(partial(read, number=n), runs) for n in range(len(lengths))]
        about = item, f"the longer a fault, {effect}", radio
        yield rules.same_order(about, lengths, by_fault, reason=why)
    about = item, "stored at the station of a fault above other stations", radio
    above = measure(metrics.above_others, runs)
    yield rules.same_sign(about, listed["more"], above, is_size=False)
    yield from _special_cases(item, radio, runs)
    for window in WINDOWS:
        runs = on_radio(results, "limit", radio, window=window)
        reading = f"at most {window} sent at once, {radio}"
        many = measure(metrics.outstanding, runs)
        about = item, "outstanding after a fault of 18 s", reading
        yield rules.at_least(about, listed["outstanding_max"], many)
        yield rules.same_sign(
            (item, "growth of these in the 8 s after it", reading),
            listed["more"],
            measure(metrics.grown_since, runs),
            is_size=False,
            reason="the limit is a matter of the bandwidth",
        )


def _special_cases(item: str, radio: str, runs: Sequence[Run]) -> Iterator[Claim]:
    """The two of Figure 8b, of runs that are long enough for them."""
    listed = PUBLISHED[item]
    fault_s, next_s = map(int, listed["not recovered"])
    cases = [
        (f"stored at {next_s} s more than before the fault of {fault_s} s", next_s,
         metrics.left_behind(fault_s, next_s)),
    ]  # fmt: skip
    for begin_s, end_s in (map(int, span) for span in listed["elsewhere"]):
        quantity = f"stored at the fullest other station, {begin_s} to {end_s} s more than before"
        cases.append((quantity, end_s, metrics.more_elsewhere(begin_s, end_s)))
    for quantity, end_s, read in cases:
        if end_s <= runs[0]["scenario"]["duration_s"]:
            about = item, f"{quantity} (Fig. 8b)", radio
            yield rules.same_sign(
                about, listed["more"], measure(read, runs), is_size=False, reason=ONE_RUN
            )


def _lives(results: Results) -> Iterator[Claim]:
    """IV-C, IV-E and V-B: hosts that leave, fail for good, or are out of coverage."""
    more = PUBLISHED[HIGH_ITEM]["more"]
    for lease_s, runs in ((one, select(results["gone"], lease_s=one)) for one in LEASES_S):
        growth = measure(metrics.growth("stored"), runs)
        about = "Section IV-E", "growth of SBuffer after a permanent failure"
        if lease_s == 0:
            yield rules.same_sign((*about, "no T"), more, growth, is_size=False)
        else:
            reading = f"T of {lease_s:g} s"
            yield rules.within((*about, reading), 0.0, growth, span=PUBLISHED[HIGH_ITEM]["stored"])
    inside, outside = (select(results["coverage"], mobility=one) for one in ("waypoint", "roam"))
    about = "Section V-B", "messages stored as hosts leave the cells, less those as they do not"
    stored = paired(less(extra("stored_mean")), outside, inside)
    yield rules.same_sign(about, more, stored, is_size=False)
    for hosts, wanted in LIVES.items():
        runs = select(results["lives"], **wanted)
        for phrase, against in (
            ("deliveries out of causal order", rules.CAUSAL_ORDER),
            ("deliveries missing, repeated or of nothing", rules.EXACTLY_ONCE),
        ):
            yield rules.kept(("Guarantees", f"{phrase}, mobile, {hosts}"), runs, against)


def _choices(results: Results) -> Iterator[Claim]:
    """Values that depend on the spacing of stations and on the reading of the repetition."""
    for rate in (LOW, WALKING):
        for spacing_m in SPACINGS:
            runs = select(results["spacing"], rate=rate, spacing_m=spacing_m)
            where = f"stations {spacing_m:g} m apart, {rate:g} per s"
            for quantity, read in (
                ("delay in s", delay_s),
                ("share lost", extra("collisions_intended")),
            ):
                about = "Spacing", quantity, where
                yield rules.finding(about, measure(read, runs), reason=COMPROMISE)
    listed = PUBLISHED[LOW_ITEM]["mobile"]
    for reading, repeat in REPEATS.items():
        runs = select(results["repeats"], **repeat)
        about = LOW_ITEM, "delay in s, mobile", f"repeated by {reading}"
        yield rules.within(about, listed["delay_s"], measure(delay_s, runs), rounding=0.005,
                           reason=UNKNOWN_RADIO)  # fmt: skip
        about = LOW_ITEM, "share lost in collisions, mobile", f"repeated by {reading}"
        lost = measure(extra("collisions_intended"), runs)
        yield rules.within(about, listed["collisions"], lost, rounding=0.005, reason=SHARED)


def _memory(results: Results) -> Iterator[Claim]:
    """V-D."""
    item, listed = "Section V-D", PUBLISHED["Section V-D"]
    control = extra("station_control_bytes_max")
    cells, groups = (
        [select(results["size"], nodes=hosts, stations=stations) for hosts, stations in sizes]
        for sizes in (CELLS, GROUPS)
    )

    def ratio(one: Run, two: Run, three: Run) -> float:
        return (control(three) - control(two)) / max(control(two) - control(one), 1)

    def of_other_hosts(few: Run, many: Run) -> float:
        return (control(many) - control(few)) / (GROUPS[1][0] - GROUPS[0][0])

    first, second = listed["steps"]
    about = item, "bytes for 20 more hosts of a cell, times those for 10 more"
    yield rules.within(about, second / first, measure(ratio, *cells), rounding=0.05)
    about = item, "bytes of a station for a host of other cells"
    others = measure(of_other_hosts, *groups)
    yield rules.equal(about, listed["bytes_of_others"], others, reason=MEMORY)
    about = item, "bytes of the largest host, 280 hosts"
    yield rules.finding(about, measure(extra("host_bytes_max"), groups[-1]))


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


def shown(results: Results, claims: Claims) -> Iterator[Table | Figure]:
    """The two loads of section V-A, what a station keeps; Figures 6 to 8, and over bandwidth."""
    high = {"mobile": PUBLISHED[HIGH_ITEM], "flooding": {}}
    yield _loads(results, "static", LOW_ITEM, PUBLISHED[LOW_ITEM])
    yield _loads(results, "load", HIGH_ITEM, high)
    sizes = [
        extra(f"{one}_max") for one in ("station_bytes", "station_control_bytes", "host_bytes")
    ]
    yield Table(
        "Section V-D",
        ("hosts", "stations", "largest station, bytes", "without messages", "host"),
        tuple(
            (
                float(run["nodes"]),
                float(run["scenario"]["parameters"]["stations"]),
                *(measure(size, [run]) for size in sizes),
            )
            for run in results["size"]
        ),
        "in numbers of 8 bytes and messages of 148; of one run each",
    )
    yield from _figure_6(results)
    yield from _figures_7_and_8(results)
    lines = []
    for radio in RADIOS:
        for protocol in PROTOCOLS:
            of = partial(on_radio, results, "bandwidth", radio, protocol=protocol)
            points = [(bps, measure(delay_s, of(bandwidth_bps=bps))) for bps in BANDWIDTHS]
            access = radio.partition(" at ")[0]
            lines.append(measured_series(f"{protocol}, {access}", points))
    yield Figure(
        name="Bandwidth",
        title="Delay of deliveries over the bandwidth of the radio, 5.6 messages per second",
        x_label="bits per second",
        y_label="delay, s",
        series=(*lines, *_levels("delay_s", BANDWIDTHS)),
        alt="The mean delay of mobile and of TCP-Flooding over four bandwidths, with ALOHA and "
        "with carrier sense, and the two values that the paper reports for a bandwidth it does not "
        "give.",
        log_x=True,
        log_y=True,
    )
    for subject, label in (("delay in s", "delay, s"), ("share lost", "share lost")):
        places = {spacing_m: f"stations {spacing_m:g} m apart" for spacing_m in SPACINGS}
        yield Figure(
            name=f"Spacing, {subject}",
            title=f"Distance of stations: {subject}, ALOHA at 6 Mb/s",
            x_label="m between neighbouring stations",
            y_label=label,
            series=tuple(
                measured_series(
                    f"{rate:g} per s",
                    [
                        (x, claims.measured("Spacing", subject, f"{where}, {rate:g} per s"))
                        for x, where in places.items()
                    ],
                )
                for rate in (LOW, WALKING)
            ),
            alt=f"The {subject} of mobile over the distance of stations, 150 to 200 m, under two "
            "loads: less where cells overlap less.",
        )


def _loads(results: Results, experiment: str, name: str, published: Any) -> Table:
    """A row for each quantity, a column for each protocol, TCP and radio."""
    of = partial(on_radio, results, experiment)
    runs = {f"mobile, {radio}": of(radio, protocol="mobile") for radio in RADIOS}
    over_tcp = {
        f"flooding, {tcp}, {radio}": of(radio, protocol="flooding", **TCPS[tcp])
        for radio in RADIOS
        for tcp in TCPS
    }
    rows = []
    for label, key, read in ROWS:
        row: list[Cell] = [label]
        for protocol, of_protocol in zip(PROTOCOLS, (runs, over_tcp), strict=True):
            listed = published[protocol].get(key)
            row += [None if listed is None else Published(listed)]
            row += [measure(read, replications) for replications in of_protocol.values()]
        rows.append(tuple(row))
    header = ("", "mobile, published", *runs, "flooding, published", *over_tcp)
    return Table(name, header, tuple(rows), by_row=True)


def _levels(name: str, places: Sequence[float]) -> list[Series]:
    """Values that the text gives at the low load, as level lines."""
    listed = {protocol: PUBLISHED[LOW_ITEM][protocol][name] for protocol in PROTOCOLS}
    return [
        published_series(
            f"{protocol}, published", [(float(x), value) for x in (places[0], places[-1])]
        )
        for protocol, value in listed.items()
    ]


def _over_time(label: str, runs: Sequence[Run], read: str | Callable[[int], Reader]) -> Series:
    """A series of the results by its name, or what is read of the runs in each second."""
    at = partial(at_second, read) if isinstance(read, str) else read
    seconds = range(1, int(runs[0]["scenario"]["duration_s"]) + 1)
    return measured_series(label, [(float(s), measure(at(s), runs)) for s in seconds])


def _figure_6(results: Results) -> Iterator[Figure]:
    said = "over time, of mobile and of TCP-Flooding (INET's TCP) on all radios"
    end_s = float(results["static"][0]["scenario"]["duration_s"])
    for letter, title, label, read, is_log, seen in (
        ("a", "Messages stored at a station", "messages", "stored", True,
         "several times as many with flooding."),
        ("b", "Bytes sent", "bytes per s", "bytes", False,
         "about four times as many with flooding."),
        ("c", "Messages out of order at a host", "messages", "early", False,
         "less than one with either."),
        ("d", "Datagrams sent per delivery until now", "datagrams",
         metrics.per_delivery_until, True,
         "below one with mobile, above it with flooding, and nearly constant after seconds."),
    ):  # fmt: skip
        lines = [
            _over_time(
                f"{protocol}, {radio}", on_radio(results, "static", radio, protocol=protocol), read
            )
            for protocol in PROTOCOLS
            for radio in RADIOS
        ]
        lines += _levels("messages_per_delivery", (1.0, end_s)) if letter == "d" else []
        yield Figure(
            name=f"Figure 6{letter}",
            title=f"{title}, 5.6 messages per second",
            x_label="time, s",
            y_label=label,
            series=tuple(lines),
            alt=f"{title} {said}: {seen}",
            log_y=is_log,
        )


def _figures_7_and_8(results: Results) -> Iterator[Figure]:
    buffers, sent, faults = [], [], []
    for radio in RADIOS:
        walking = on_radio(results, "walking", radio, mobility="waypoint")
        standing = on_radio(results, "walking", radio, mobility="static")
        for label, name in (("SBuffer of a station", "stored"), ("RBuffer of a host", "early")):
            buffers.append(_over_time(f"{label}, {radio}", walking, name))
        for label, runs in (("walking", walking), ("standing", standing)):
            sent.append(_over_time(f"{label}, {radio}", runs, "sent"))
        one = on_radio(results, "faults", radio)[:1]
        faults.append(_over_time(f"station {FAULT_STATION}, {radio}", one, "stored_at_fault"))
        faults.append(_over_time(f"all stations, mean, {radio}", one, "stored"))
    for name, title, label, lines, is_log, alt in (
        ("7a", "Buffers while hosts walk, 25 messages per second", "messages", buffers, False,
         "Messages stored at a station and out of order at a host over time, on all radios: a few "
         "dozen at the station with ALOHA at 6 Mb/s, more with carrier sense at 1 Mb/s."),
        ("7b", "Datagrams sent while hosts walk or stand, 25 messages per second",
         "datagrams per s", sent, False,
         "Datagrams sent in every second, walking and standing, on all radios: the lines of one "
         "radio lie together, those of carrier sense at 1 Mb/s above."),
        ("8", f"Messages stored while hosts of station {FAULT_STATION} fail, one run",
         "messages stored", faults, True,
         "Messages stored at the station of the failing hosts over time. With ALOHA at 6 Mb/s a "
         "peak for each fault, the longer the higher, and back within seconds; with carrier sense "
         "at 1 Mb/s they grow without end once there are hundreds."),
    ):  # fmt: skip
        yield Figure(
            name=f"Figure {name}",
            title=title,
            x_label="time, s",
            y_label=label,
            series=tuple(lines),
            alt=alt,
            log_y=is_log,
        )

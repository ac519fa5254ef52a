"""What Wilhelm et al. 2020 publish in section V, figures and statements, and what is measured."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Final

from precedes_papers.measured import Results, Run, measure, pooled, select
from precedes_papers.p004 import HIGH_ITEM, LOW_ITEM, PAPER, PUBLISHED, metrics
from precedes_papers.p004.experiments import (
    BANDWIDTHS,
    CELLS,
    GROUPS,
    RADIOS,
    TCPS,
    UNKNOWN_RADIO,
    WINDOWS,
)
from precedes_papers.p004.metrics import delay_s, extra, less, on_radio, paired
from precedes_papers.rules import (
    CAUSAL_ORDER,
    EXACTLY_ONCE,
    About,
    Claim,
    at_least,
    at_most,
    equal,
    finding,
    in_range,
    irreproducible,
    kept,
    same_order,
    same_sign,
    within,
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
CONNECTS: Final = (
    "hosts connect within the first second here, before anything waits; the paper does not say "
    "when they do"
)
ON_DEMAND: Final = "an acknowledgement is sent when there is something to acknowledge"
OVERLOAD: Final = (
    "a station that repeats 150 messages five times a second fills most of 1 Mb/s, and loses by "
    "that what it would deliver"
)
SELDOM: Final = (
    "a message of a host is out of order at its station only while one before it is sent again; "
    "at 25 broadcasts a second of 70 hosts the next of a host seldom comes in that time"
)
MEMORY: Final = (
    "a station must remember every host that it ever heard of (32 bytes), or an old join or init "
    "makes a second record; the paper's algorithm does not, and fails"
)


def claims(results: Results) -> Iterator[Claim]:
    """All of section V on both radios, and what is measured besides."""
    for radio in RADIOS:
        yield from _low(results, radio, "mobile", f"mobile, {radio}")
        for tcp in TCPS:
            yield from _low(results, radio, "flooding", f"flooding, {tcp}, {radio}", **TCPS[tcp])
            yield from _against_flooding(results, radio, tcp)
        yield from _high_of_mobile(results, radio)
        for tcp in TCPS:
            yield from _high_of_flooding(results, radio, tcp)
        yield from _walking(results, radio)
        yield from _faults(results, radio)
        yield from _curve(results, radio)
    yield from _memory(results)
    yield from _guarantees(results)


def _about(item: str, what: str, where: str) -> About:
    return About(PAPER, item, f"{what}, {where}")


def _overloaded(radio: str) -> str:
    """Why what the stations of a radio do at high loads may differ."""
    return OVERLOAD if RADIOS[radio]["mac"] == "csma" else UNKNOWN_RADIO


def _low(results: Results, radio: str, protocol: str, who: str, **tcp: float) -> Iterator[Claim]:
    """V-A, the low load."""
    runs = on_radio(results, "static", radio, protocol=protocol, **tcp)
    printed = PUBLISHED[LOW_ITEM][protocol]
    is_tcp = protocol == "flooding"
    ratio = extra("messages_per_delivery")
    for what, name, read, rounding, reason in (
        ("delay in s", "delay_s", delay_s, 0.5 if is_tcp else 0.005, UNKNOWN_RADIO),
        ("messages sent per delivery", "messages_per_delivery", ratio, 0.005 if is_tcp else 0.05,
         NAGLE if is_tcp else UNKNOWN_RADIO),
        ("share lost in collisions", "collisions", extra("collisions_intended"), 0.005, SHARED),
    ):  # fmt: skip
        about, measured = _about(LOW_ITEM, what, who), measure(read, runs)
        yield within(about, printed[name], measured, rounding=rounding, reason=reason)
    about = _about(LOW_ITEM, "messages out of order at a host (RBuffer)", who)
    yield at_most(about, printed["early_below"], measure(extra("early_mean"), runs))
    about = _about(LOW_ITEM, "acknowledgements of a host per s", who)
    acks = measure(extra("acks_per_host_per_s"), runs)
    if is_tcp:
        yield at_least(about, printed["acks_per_s"], acks, reason=ON_DEMAND)
    else:
        yield at_most(about, printed["acks_per_s"], acks)
        about = _about(LOW_ITEM, "lost at any antenna in reach", who)
        yield finding(about, measure(extra("collisions_all"), runs))


def _against_flooding(results: Results, radio: str, tcp: str) -> Iterator[Claim]:
    """V-A, the low load: where no name is given, only the direction is published."""
    runs = on_radio(results, "static", radio, protocol="flooding", **TCPS[tcp])
    others = on_radio(results, "static", radio, protocol="mobile")
    printed, where = PUBLISHED[LOW_ITEM], f"{tcp}, {radio}"
    for what, name, read, reason in (
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
        about = _about(LOW_ITEM, f"flooding less mobile: {what}", where)
        gap = printed["flooding"][name] - printed["mobile"][name] if name else printed["more"]
        measured = paired(less(read), runs, others)
        yield same_sign(about, gap, measured, is_size=bool(name), reason=reason)
    about = _about(LOW_ITEM, "times as many messages stored as with mobile", where)
    times = paired(metrics.times(extra("stored_mean")), runs, others)
    yield at_least(about, printed["copies_stored"], times, reason=UNKNOWN_RADIO)


def _high_of_mobile(results: Results, radio: str) -> Iterator[Claim]:
    """V-A, the high load."""
    printed, who, reason = PUBLISHED[HIGH_ITEM], f"mobile, {radio}", _overloaded(radio)
    runs = on_radio(results, "load", radio, protocol="mobile")
    for what, name, read, rounding in (
        ("delay in s", "delay_s", delay_s, 0.005),
        ("messages stored at a station", "stored", extra("stored_mean"), 0.5),
        ("messages out of order at a host", "early", extra("early_mean"), 0.5),
        ("messages sent per s", "sent_per_s", extra("sent_per_s"), 50.0),
    ):
        about, measured = _about(HIGH_ITEM, what, who), measure(read, runs)
        yield within(about, printed[name], measured, rounding=rounding, reason=reason)
    about = _about(HIGH_ITEM, "growth of SBuffer while the load lasts", who)
    growth = measure(metrics.growth("stored"), runs)
    yield within(about, printed["growth"], growth, span=printed["stored"], reason=reason)
    about = _about(HIGH_ITEM, "bytes sent per s", who)
    sent = measure(extra("bytes_per_s"), runs)
    yield irreproducible(about, printed["bytes_per_s"], sent, reason=BYTES)
    about = _about(HIGH_ITEM, "bytes of the protocol in a datagram", who)
    yield finding(about, measure(extra("control_bytes_per_datagram"), runs))


def _high_of_flooding(results: Results, radio: str, tcp: str) -> Iterator[Claim]:
    """ "Buffers, and delivery delays, which grow indefinitely"; connections that fail."""
    printed, where = PUBLISHED[HIGH_ITEM], f"flooding, {tcp}, {radio}"
    runs = on_radio(results, "load", radio, protocol="flooding", **TCPS[tcp])
    low = on_radio(results, "static", radio, protocol="flooding", **TCPS[tcp])
    mobile = on_radio(results, "load", radio, protocol="mobile")
    connect = less(extra("connect_ms_max", 0.001))
    for what, measured in (
        ("growth of SBuffer while the load lasts", measure(metrics.growth("stored"), runs)),
        ("growth of the delay while the load lasts, in s", measure(metrics.delay_growth_s, runs)),
        ("delay above that at 5.6 per s, in s", paired(less(delay_s), runs, low)),
        ("delay above that of mobile, in s", paired(less(delay_s), runs, mobile)),
        ("longest connect above that at 5.6 per s, in s", paired(connect, runs, low)),
    ):
        yield same_sign(_about(HIGH_ITEM, what, where), printed["more"], measured, is_size=False)

    def longest_s(every: Sequence[Run]) -> float:
        return max(float(run["extra"]["connect_ms_max"]) / 1000 for run in every)

    about = _about(HIGH_ITEM, "s until the last host has its connection", where)
    yield at_least(about, printed["connect_s"], pooled(longest_s, runs), reason=CONNECTS)


def _walking(results: Results, radio: str) -> Iterator[Claim]:
    """V-B."""
    printed, reason = PUBLISHED["Section V-B"], _overloaded(radio)
    standing = on_radio(results, "walking", radio, mobility="static")
    walking = on_radio(results, "walking", radio, mobility="waypoint")

    def about(what: str) -> About:
        return _about("Section V-B", what, radio)

    delay = measure(delay_s, walking)
    yield within(about("delay in s"), printed["delay_s"], delay, rounding=0.05, reason=reason)
    added = paired(less(delay_s), walking, standing)
    yield same_sign(about("delay that walking adds, in s"), printed["penalty_s"], added)
    yield within(
        about("growth of the delay while hosts walk, in s"),
        printed["growth"],
        measure(metrics.delay_growth_s, walking),
        span=printed["delay_s"],
        reason=reason,
    )
    lost = extra("collisions_intended")
    share = measure(lost, walking)
    yield in_range(about("share lost in collisions"), printed["collisions"], share, reason=SHARED)
    added = paired(less(lost), walking, standing)
    yield same_sign(about("collisions that walking adds"), printed["more"], added, is_size=False)
    for what, name, read in (
        ("s within which half of the deliveries are made", "first_repeat_s", metrics.median_s),
        ("dozens of messages stored at a station (Fig. 7a)", "stored_dozens", metrics.dozens),
    ):
        yield at_most(about(what), printed[name], measure(read, walking), reason=reason)
    for what, name in (
        ("own messages not acknowledged at a host (SBuffer)", "unacknowledged_mean"),
        ("messages of a host out of order at its station (RBuffer)", "station_early_mean"),
    ):
        measured = measure(extra(name), walking)
        yield in_range(about(what), printed["buffers"], measured, reason=SELDOM)
    for what, name in (
        ("messages sent (Fig. 7b)", "sent_per_s"),
        ("messages stored at a station", "stored_mean"),
        ("messages out of order at a host", "early_mean"),
    ):
        times = paired(metrics.times(extra(name)), walking, standing)
        whose = about(f"{what}, times those of standing hosts")
        yield within(whose, printed["as_standing"], times, rounding=0.1, reason=reason)
    discarded = "messages of a handoff that the new station had discarded"
    most, mean = pooled(metrics.most_discarded, walking), pooled(metrics.discarded, walking)
    yield at_most(about(f"{discarded}, most"), printed["list_up_to"], most, reason=reason)
    yield finding(about(f"{discarded}, mean"), mean)
    beyond = measure(metrics.beyond_the_buffer, walking)
    longest = about("longest list of a handoff less the fullest SBuffer")
    yield at_most(longest, printed["list_beyond_buffer"], beyond)
    yield at_least(
        about("share of copies that one host of the cell or none has already (V-D)"),
        PUBLISHED["Section V-D"]["usually"],
        measure(metrics.one_id_or_none, walking),
    )


def _faults(results: Results, radio: str) -> Iterator[Claim]:
    """V-C; "beyond it, messages will not be delivered fast enough": growth after a long fault."""
    item, printed = "Section V-C", PUBLISHED["Section V-C"]
    runs = on_radio(results, "faults", radio)
    why = f"; {OVERLOAD}" if RADIOS[radio]["mac"] == "csma" else ""
    why = f"published are the lengths in s; the rest is in a figure{why}"
    for what, read in (
        ("the more its station stores: peaks", metrics.peak),
        ("the longer until it is as before: s", metrics.recovery_s),
    ):
        lengths = printed["lengths_s"]
        by_fault = [measure(partial(read, number=n), runs) for n in range(len(lengths))]
        about = _about(item, f"the longer a fault, {what}", radio)
        yield same_order(about, lengths, by_fault, reason=why)
    about = _about(item, "stored at the station of a fault above other stations", radio)
    above = measure(metrics.above_others, runs)
    yield same_sign(about, printed["more"], above, is_size=False)
    for window in WINDOWS:
        runs = on_radio(results, "limit", radio, window=window)
        where = f"at most {window} sent at once, {radio}"
        about = _about(item, "outstanding after a fault of 18 s", where)
        yield at_least(about, printed["outstanding_max"], measure(metrics.outstanding, runs))
        yield same_sign(
            _about(item, "growth of these in the 8 s after it", where),
            printed["more"],
            measure(metrics.grown_since, runs),
            is_size=False,
            reason="the limit is a matter of the bandwidth",
        )


def _curve(results: Results, radio: str) -> Iterator[Claim]:
    access = radio.partition(" at ")[0]
    for bandwidth in BANDWIDTHS:
        runs = [
            on_radio(results, "bandwidth", radio, protocol=protocol, bandwidth_bps=bandwidth)
            for protocol in ("flooding", "mobile")
        ]
        key = f"delay of flooding by that of mobile, {access}, {bandwidth:g} b/s"
        why = "the paper's factor is 10 at an unknown bandwidth"
        times = measure(metrics.times(delay_s), *runs)
        yield finding(About(PAPER, "Bandwidth", key), times, reason=why)


def _memory(results: Results) -> Iterator[Claim]:
    item, printed = "Section V-D", PUBLISHED["Section V-D"]
    control = extra("station_control_bytes_max")
    cells, groups = (
        [select(results["size"], nodes=hosts, stations=stations) for hosts, stations in sizes]
        for sizes in (CELLS, GROUPS)
    )

    def ratio(one: Run, two: Run, three: Run) -> float:
        return (control(three) - control(two)) / max(control(two) - control(one), 1)

    def of_other_hosts(few: Run, many: Run) -> float:
        return (control(many) - control(few)) / (GROUPS[1][0] - GROUPS[0][0])

    first, second = printed["steps"]
    about = About(PAPER, item, "bytes for 20 more hosts of a cell, times those for 10 more")
    yield within(about, second / first, measure(ratio, *cells), rounding=0.05)
    about = About(PAPER, item, "bytes of a station for a host of other cells")
    others = measure(of_other_hosts, *groups)
    yield equal(about, printed["bytes_of_others"], others, reason=MEMORY)
    about = About(PAPER, item, "bytes of the largest host, 280 hosts")
    yield finding(about, measure(extra("host_bytes_max"), groups[-1]))


def _guarantees(results: Results) -> Iterator[Claim]:
    who = {"mobile, hosts that walk and fail": {"protocol": "mobile"}}
    who |= {f"flooding, {tcp}": {"protocol": "flooding", **TCPS[tcp]} for tcp in TCPS}
    for radio in RADIOS:
        for name, wanted in who.items():
            runs = on_radio(results, "traced", radio, **wanted)
            for what, against in (
                ("deliveries out of causal order", CAUSAL_ORDER),
                ("deliveries missing, repeated or of nothing", EXACTLY_ONCE),
            ):
                yield kept(_about("Guarantees", f"{what}, {name}", radio), runs, against)

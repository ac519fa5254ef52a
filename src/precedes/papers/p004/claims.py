"""What Wilhelm et al. 2020 print in section V, figures and statements, and what is measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from precedes.papers.claims import (
    About,
    Claim,
    at_least,
    at_most,
    equal,
    finding,
    in_range,
    irreproducible,
    same_order,
    same_sign,
    within,
)
from precedes.papers.guarantees import CAUSAL_ORDER, EXACTLY_ONCE, kept
from precedes.papers.measured import Measured, Results, Run, measure, pooled, select
from precedes.papers.p004 import PAPER, metrics
from precedes.papers.p004.experiments import (
    BANDWIDTHS,
    CELLS,
    GROUPS,
    RADIOS,
    TCPS,
    UNKNOWN_RADIO,
    WINDOWS,
)
from precedes.papers.p004.metrics import Reader, delay_s, extra, less, on_radio, paired, static
from precedes.papers.p004.published import HIGH_ITEM, LOW_ITEM, PUBLISHED

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


def claims(results: Results) -> list[Claim]:
    """All of section V on both radios, and what is measured besides."""
    found = []
    for radio in RADIOS:
        found += _low_of_mobile(results, radio)
        for tcp in TCPS:
            found += _low_of_flooding(results, radio, tcp)
            found += _against_flooding(results, radio, tcp)
        found += _high_of_mobile(results, radio)
        for tcp in TCPS:
            found += _high_of_flooding(results, radio, tcp)
        found += _walking(results, radio)
        found += _faults(results, radio)
        found += _limit(results, radio)
        found += _curve(results, radio)
    return [*found, *_memory(results), *_guarantees(results)]


# V-A, the low load.


def _low_of_mobile(results: Results, radio: str) -> list[Claim]:
    def read(reader: Reader) -> Measured:
        return static(results, radio, reader, protocol="mobile")

    printed = PUBLISHED[LOW_ITEM]["mobile"]
    return [
        *_figures_of(f"mobile, {radio}", printed, read, places=(0.005, 0.05)),
        at_most(
            About(PAPER, LOW_ITEM, f"acknowledgements of a host per s, mobile, {radio}"),
            published=printed["acks_per_s"],
            measured=read(extra("acks_per_host_per_s")),
        ),
        finding(
            About(PAPER, LOW_ITEM, f"lost at any antenna in reach, mobile, {radio}"),
            measured=read(extra("collisions_all")),
        ),
    ]


def _low_of_flooding(results: Results, radio: str, tcp: str) -> list[Claim]:
    def read(reader: Reader) -> Measured:
        return static(results, radio, reader, protocol="flooding", **TCPS[tcp])

    printed = PUBLISHED[LOW_ITEM]["flooding"]
    return [
        *_figures_of(f"flooding, {tcp}, {radio}", printed, read, places=(0.5, 0.005)),
        at_least(
            About(PAPER, LOW_ITEM, f"acknowledgements of a host per s, flooding, {tcp}, {radio}"),
            published=printed["acks_per_s"],
            measured=read(extra("acks_per_host_per_s")),
            reason=ON_DEMAND,
        ),
    ]


def _figures_of(
    who: str,
    printed: dict[str, float],
    read: Callable[[Reader], Measured],
    places: tuple[float, float],
) -> list[Claim]:
    """What print gives of both algorithms."""
    reasons = {"collisions": SHARED}
    if who.startswith("flooding"):
        reasons["messages_per_delivery"] = NAGLE
    found = [
        within(
            About(PAPER, LOW_ITEM, f"{what}, {who}"),
            published=printed[key],
            measured=read(reader),
            rounding=rounding,
            reason=reasons.get(key, UNKNOWN_RADIO),
        )
        for what, key, reader, rounding in (
            ("delay in s", "delay_s", delay_s, places[0]),
            (
                "messages sent per delivery",
                "messages_per_delivery",
                extra("messages_per_delivery"),
                places[1],
            ),
            ("share lost in collisions", "collisions", extra("collisions_intended"), 0.005),
        )
    ]
    about = About(PAPER, LOW_ITEM, f"messages out of order at a host (RBuffer), {who}")
    measured = read(extra("early_mean"))
    return [*found, at_most(about, published=printed["early_below"], measured=measured)]


def _against_flooding(results: Results, radio: str, tcp: str) -> list[Claim]:
    runs = on_radio(results, "static", radio, protocol="flooding", **TCPS[tcp])
    others = on_radio(results, "static", radio, protocol="mobile")
    printed = PUBLISHED[LOW_ITEM]
    mobile, flooding = printed["mobile"], printed["flooding"]
    where = f"{tcp}, {radio}"

    def gap(key: str) -> float:
        return float(flooding[key] - mobile[key])

    varies = "variation of SBuffer over time"
    early = "messages out of order at a host (Fig. 6c)"
    reasons = {early: NAGLE, varies: UNKNOWN_RADIO}
    found = [
        same_sign(
            About(PAPER, LOW_ITEM, f"flooding less mobile: {what}, {where}"),
            published=printed["more"] if key is None else gap(key),
            measured=paired(less(read), runs, others),
            is_size=key is not None,
            reason=reasons.get(what, ""),
        )
        for what, key, read in (
            ("delay in s", "delay_s", delay_s),
            (
                "messages sent per delivery (Fig. 6d)",
                "messages_per_delivery",
                extra("messages_per_delivery"),
            ),
            ("share lost in collisions", "collisions", extra("collisions_intended")),
            ("messages stored at a station (Fig. 6a)", None, extra("stored_mean")),
            (early, None, extra("early_mean")),
            ("bytes sent per s (Fig. 6b)", None, extra("bytes_per_s")),
            ("bytes of a datagram", None, metrics.bytes_per_datagram),
            ("acknowledgements of a host per s", None, extra("acks_per_host_per_s")),
            (varies, None, metrics.variation),
        )
    ]
    about = About(PAPER, LOW_ITEM, f"times as many messages stored as with mobile, {where}")
    times = paired(metrics.times(extra("stored_mean")), runs, others)
    least = printed["copies_stored"]
    return [*found, at_least(about, published=least, measured=times, reason=UNKNOWN_RADIO)]


# V-A, the high load.


def _high_of_mobile(results: Results, radio: str) -> list[Claim]:
    printed = PUBLISHED[HIGH_ITEM]
    runs = on_radio(results, "load", radio, protocol="mobile")
    reason = OVERLOAD if RADIOS[radio]["mac"] == "csma" else UNKNOWN_RADIO
    found = [
        within(
            About(PAPER, HIGH_ITEM, f"{what}, mobile, {radio}"),
            published=printed[key],
            measured=measure(read, runs),
            rounding=rounding,
            reason=reason,
        )
        for what, key, read, rounding in (
            ("delay in s", "delay_s", delay_s, 0.005),
            ("messages stored at a station", "stored", extra("stored_mean"), 0.5),
            ("messages out of order at a host", "early", extra("early_mean"), 0.5),
            ("messages sent per s", "sent_per_s", extra("sent_per_s"), 50.0),
        )
    ]
    return [
        *found,
        within(
            About(PAPER, HIGH_ITEM, f"growth of SBuffer while the load lasts, mobile, {radio}"),
            published=printed["growth"],
            measured=measure(metrics.growth("stored"), runs),
            span=printed["stored"],
            reason=reason,
        ),
        irreproducible(
            About(PAPER, HIGH_ITEM, f"bytes sent per s, mobile, {radio}"),
            published=printed["bytes_per_s"],
            measured=measure(extra("bytes_per_s"), runs),
            reason=BYTES,
        ),
        finding(
            About(PAPER, HIGH_ITEM, f"bytes of the protocol in a datagram, mobile, {radio}"),
            measured=measure(extra("control_bytes_per_datagram"), runs),
        ),
    ]


def _high_of_flooding(results: Results, radio: str, tcp: str) -> list[Claim]:
    """ "Buffers, and delivery delays, which grow indefinitely"; connections that fail."""
    printed = PUBLISHED[HIGH_ITEM]
    runs = on_radio(results, "load", radio, protocol="flooding", **TCPS[tcp])
    low = on_radio(results, "static", radio, protocol="flooding", **TCPS[tcp])
    mobile = on_radio(results, "load", radio, protocol="mobile")
    where = f"flooding, {tcp}, {radio}"
    measured = (
        ("growth of SBuffer while the load lasts", measure(metrics.growth("stored"), runs)),
        (
            "growth of the delay while the load lasts, in s",
            measure(metrics.growth("delay_ms", 0.001), runs),
        ),
        ("delay above that at 5.6 per s, in s", paired(less(delay_s), runs, low)),
        ("delay above that of mobile, in s", paired(less(delay_s), runs, mobile)),
        (
            "longest connect above that at 5.6 per s, in s",
            paired(less(extra("connect_ms_max", 0.001)), runs, low),
        ),
    )
    found = [
        same_sign(
            About(PAPER, HIGH_ITEM, f"{what}, {where}"),
            published=printed["more"],
            measured=one,
            is_size=False,
        )
        for what, one in measured
    ]

    def longest_s(every: Sequence[Run]) -> float:
        return max(float(run["extra"]["connect_ms_max"]) / 1000 for run in every)

    return [
        *found,
        at_least(
            About(PAPER, HIGH_ITEM, f"s until the last host has its connection, {where}"),
            published=printed["connect_s"],
            measured=pooled(longest_s, runs),
            reason=CONNECTS,
        ),
    ]


# V-B.


def _walking(results: Results, radio: str) -> list[Claim]:
    item = "Section V-B"
    printed = PUBLISHED[item]
    standing = on_radio(results, "walking", radio, mobility="static")
    walking = on_radio(results, "walking", radio, mobility="waypoint")
    reason = OVERLOAD if RADIOS[radio]["mac"] == "csma" else UNKNOWN_RADIO

    def about(what: str) -> About:
        return About(PAPER, item, f"{what}, {radio}")

    def beside(reader: Reader) -> Measured:
        return paired(less(reader), walking, standing)

    found = [
        within(
            about("delay in s"),
            published=printed["delay_s"],
            measured=measure(delay_s, walking),
            rounding=0.05,
            reason=reason,
        ),
        same_sign(
            about("delay that walking adds, in s"),
            published=printed["penalty_s"],
            measured=beside(delay_s),
        ),
        within(
            about("growth of the delay while hosts walk, in s"),
            published=printed["growth"],
            measured=measure(metrics.growth("delay_ms", 0.001), walking),
            span=printed["delay_s"],
            reason=reason,
        ),
        in_range(
            about("share lost in collisions"),
            published=printed["collisions"],
            measured=measure(extra("collisions_intended"), walking),
            reason=SHARED,
        ),
        same_sign(
            about("collisions that walking adds"),
            published=printed["more"],
            measured=beside(extra("collisions_intended")),
            is_size=False,
        ),
        at_most(
            about("s within which half of the deliveries are made"),
            published=printed["first_repeat_s"],
            measured=measure(metrics.median_s, walking),
            reason=reason,
        ),
    ]
    return [
        *found,
        *_buffers_walking(about, printed, walking, standing, reason),
        *_handoffs(about, printed, walking, reason),
    ]


def _buffers_walking(
    about: Callable[[str], About],
    printed: dict[str, Any],
    walking: Sequence[Run],
    standing: Sequence[Run],
    reason: str,
) -> list[Claim]:
    found = [
        at_most(
            about("dozens of messages stored at a station (Fig. 7a)"),
            published=printed["stored_dozens"],
            measured=measure(metrics.dozens, walking),
            reason=reason,
        ),
    ]
    for what, name in (
        ("own messages not acknowledged at a host (SBuffer)", "unacknowledged_mean"),
        ("messages of a host out of order at its station (RBuffer)", "station_early_mean"),
    ):
        measured = measure(extra(name), walking)
        found.append(
            in_range(about(what), published=printed["buffers"], measured=measured, reason=SELDOM)
        )
    for what, name in (
        ("messages sent (Fig. 7b)", "sent_per_s"),
        ("messages stored at a station", "stored_mean"),
        ("messages out of order at a host", "early_mean"),
    ):
        found.append(
            within(
                about(f"{what}, times those of standing hosts"),
                published=printed["as_standing"],
                measured=paired(metrics.times(extra(name)), walking, standing),
                rounding=0.1,
                reason=reason,
            )
        )
    return found


def _handoffs(
    about: Callable[[str], About], printed: dict[str, Any], walking: Sequence[Run], reason: str
) -> list[Claim]:
    def longest(runs: Sequence[Run]) -> float:
        return max(float(run["extra"]["discarded_max"]) for run in runs)

    def each(runs: Sequence[Run]) -> float:
        handoffs = sum(run["extra"]["handoffs"] for run in runs)
        return float(sum(run["extra"]["discarded"] for run in runs) / max(handoffs, 1))

    usually = PUBLISHED["Section V-D"]["usually"]
    return [
        at_most(
            about("messages of a handoff that the new station had discarded, most"),
            published=printed["list_up_to"],
            measured=pooled(longest, walking),
            reason=reason,
        ),
        finding(
            about("messages of a handoff that the new station had discarded, mean"),
            measured=pooled(each, walking),
        ),
        at_most(
            about("longest list of a handoff less the fullest SBuffer"),
            published=printed["list_beyond_buffer"],
            measured=measure(metrics.beyond_the_buffer, walking),
        ),
        at_least(
            about("share of copies that one host of the cell or none has already (V-D)"),
            published=usually,
            measured=measure(metrics.one_id_or_none, walking),
        ),
    ]


# V-C.


def _faults(results: Results, radio: str) -> list[Claim]:
    item = "Section V-C"
    printed = PUBLISHED[item]
    runs = on_radio(results, "faults", radio)
    numbers = range(len(printed["lengths_s"]))
    why = f"; {OVERLOAD}" if RADIOS[radio]["mac"] == "csma" else ""
    found = [
        same_order(
            About(PAPER, item, f"the longer a fault, {what}, {radio}"),
            published=printed["lengths_s"],
            measured=[measure(lambda run, n=n, read=read: read(run, n), runs) for n in numbers],
            reason=f"published are the lengths in s; the rest is in a figure{why}",
        )
        for what, read in (
            ("the more its station stores: peaks", metrics.peak),
            ("the longer until it is as before: s", metrics.recovery_s),
        )
    ]
    return [
        *found,
        same_sign(
            About(PAPER, item, f"stored at the station of a fault above other stations, {radio}"),
            published=printed["more"],
            measured=measure(metrics.above_others, runs),
            is_size=False,
        ),
    ]


def _limit(results: Results, radio: str) -> list[Claim]:
    """ "Beyond it, messages will not be delivered fast enough": growth after a long fault."""
    item = "Section V-C"
    printed = PUBLISHED[item]
    found = []
    for window in WINDOWS:
        runs = on_radio(results, "limit", radio, window=window)
        where = f"at most {window} sent at once, {radio}"
        found += [
            at_least(
                About(PAPER, item, f"outstanding after a fault of 18 s, {where}"),
                published=printed["outstanding_max"],
                measured=measure(metrics.outstanding, runs),
            ),
            same_sign(
                About(PAPER, item, f"growth of these in the 8 s after it, {where}"),
                published=printed["more"],
                measured=measure(metrics.grown_since, runs),
                is_size=False,
                reason="the limit is a matter of the bandwidth",
            ),
        ]
    return found


# V-D, and what the paper promises.


def _memory(results: Results) -> list[Claim]:
    item = "Section V-D"
    printed = PUBLISHED[item]
    control = extra("station_control_bytes_max")
    cells = [select(results["size"], nodes=hosts, stations=cells) for hosts, cells in CELLS]
    few, many = (select(results["size"], nodes=hosts, stations=cells) for hosts, cells in GROUPS)
    added = GROUPS[1][0] - GROUPS[0][0]
    first, second = printed["steps"]
    return [
        within(
            About(PAPER, item, "bytes for 20 more hosts of a cell, times those for 10 more"),
            published=second / first,
            measured=measure(
                lambda one, two, three: (
                    (control(three) - control(two)) / max(control(two) - control(one), 1)
                ),
                *cells,
            ),
            rounding=0.05,
        ),
        equal(
            About(PAPER, item, "bytes of a station for a host of other cells"),
            published=printed["bytes_of_others"],
            measured=measure(lambda one, two: (control(two) - control(one)) / added, few, many),
            reason=MEMORY,
        ),
        finding(
            About(PAPER, item, "bytes of the largest host, 280 hosts"),
            measured=measure(extra("host_bytes_max"), many),
        ),
    ]


def _guarantees(results: Results) -> list[Claim]:
    found = []
    for radio in RADIOS:
        for who, wanted in (
            ("mobile, hosts that walk and fail", {"protocol": "mobile"}),
            *((f"flooding, {tcp}", {"protocol": "flooding", **TCPS[tcp]}) for tcp in TCPS),
        ):
            runs = on_radio(results, "traced", radio, **wanted)
            for what, against in (
                ("deliveries out of causal order", CAUSAL_ORDER),
                ("deliveries missing, repeated or of nothing", EXACTLY_ONCE),
            ):
                about = About(PAPER, "Guarantees", f"{what}, {who}, {radio}")
                found.append(kept(about, runs=runs, against=against))
    return found


def _curve(results: Results, radio: str) -> list[Claim]:
    found = []
    for bandwidth in BANDWIDTHS:
        runs = [
            on_radio(results, "bandwidth", radio, protocol=protocol, bandwidth_bps=bandwidth)
            for protocol in ("flooding", "mobile")
        ]
        access = radio.partition(" at ")[0]
        about = About(
            PAPER, "Bandwidth", f"delay of flooding by that of mobile, {access}, {bandwidth:g} b/s"
        )
        found.append(
            finding(
                about,
                measured=measure(metrics.times(delay_s), *runs),
                reason="the paper's factor is 10 at an unknown bandwidth",
            )
        )
    return found

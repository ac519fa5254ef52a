"""The table of a comparison as text, Markdown, LaTeX, HTML and plain values: one set of cells."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, Final

from precedes.comparison.ranking import Standing
from precedes.comparison.rows import Row, percent

if TYPE_CHECKING:
    from precedes.comparison.result import Comparison

WIDTH: Final = 100
WIDTH_MIN: Final = 50
# What a narrow terminal does without, the first first.
DROPPED: Final = ("packet bytes", "pending msgs", "bytes ~N^", "wait ms", "p50 ms", "packets each")
UNKNOWN: Final = "-"
CPU_NOTE: Final = (
    "CPU is the time of handlers in the simulator: it tells protocols apart, and is no cost of a "
    "live group."
)


@dataclass(frozen=True)
class Column:
    """A column: its name, its unit, how a cell is written; ``short`` is for a terminal."""

    title: str
    unit: str
    cell: Callable[[Row, Standing], str]
    short: str | None = None  # None: not on a terminal
    left: bool = False
    kind: str = ""  # of its cells on a page, if they are no plain numbers or words


def _number(name: str, form: str) -> Callable[[Row, Standing], str]:
    def cell(row: Row, _place: Standing) -> str:
        value = getattr(row, name)
        return UNKNOWN if value is None else form.format(value)

    return cell


def _errors(row: Row, _place: Standing) -> str:
    seen = row.errors
    if seen.share is None:
        return UNKNOWN
    return "0" if seen.violations == 0 else percent(seen.share)


def _interval(row: Row, _place: Standing) -> str:
    seen = row.errors
    if seen.low is None or seen.high is None:
        return UNKNOWN
    for digits in (2, 3, 4):
        low, high = (percent(share, digits=digits) for share in (seen.low, seen.high))
        if low != high:
            break
    # A percentage is not broken at the end of a line, an interval may be.
    low, high = (text.replace(" ", "\N{NO-BREAK SPACE}") for text in (low, high))
    return f"{low} to {high}"


def _largest(row: Row, _place: Standing) -> str:
    size = row.largest_packet_bytes
    return "> 1,500" if size is None else f"{size:,}"


def _crash(row: Row, _place: Standing) -> str:
    return UNKNOWN if row.crash is None else str(row.crash)


def _crash_short(row: Row, _place: Standing) -> str:
    if row.crash is None:
        return UNKNOWN
    return percent(row.crash.lost / max(row.crash.due, 1))


def _exponent(row: Row, _place: Standing) -> str:
    value = row.exponents.get("bytes_per_delivery")
    return UNKNOWN if value is None else f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def _rank(_row: Row, place: Standing) -> str:
    return UNKNOWN if place.rank is None else str(place.rank)


def _cost(_row: Row, place: Standing) -> str:
    return UNKNOWN if place.cost is None else f"{place.cost:.2f}"


def _guarantee(row: Row, _place: Standing) -> str:
    return row.guarantee


COLUMNS: Final = (
    Column("rank", "", _rank, short=" "),
    Column("protocol", "", lambda row, _: row.label, short=" protocol", left=True),
    Column("guarantee", "of order", _guarantee, short=" order", left=True),
    Column("cost", "times the first", _cost, short="cost x"),
    Column("errors", "of deliveries", _errors, short="errors share"),
    Column("95 % interval", "of deliveries", _interval, kind="interval"),
    Column("latency p50", "ms", _number("latency_p50_ms", "{:,.1f}"), short="p50 ms"),
    Column("latency p99", "ms", _number("latency_p99_ms", "{:,.1f}"), short="p99 ms"),
    Column("wait for order", "ms", _number("wait_ms", "{:,.2f}"), short="wait ms"),
    Column(
        "size", "bytes a delivery", _number("bytes_per_delivery", "{:,.0f}"), short="bytes each"
    ),
    Column(
        "packets", "a delivery", _number("packets_per_delivery", "{:.2f}"), short="packets each"
    ),
    Column("largest packet", "bytes, at most", _largest, short="packet bytes"),
    Column("pending", "messages a node", _number("pending_messages", "{:,}"), short="pending msgs"),
    Column("pending", "bytes a node", _number("pending_bytes", "{:,.0f}")),
    Column("CPU, simulated", "us a delivery", _number("cpu_us_per_delivery", "{:.2f}")),
    Column("bytes grow as", "N to the", _exponent, short="bytes ~N^"),
    Column("a node crashes", "", _crash, left=True),
    Column("a crash", "lost", _crash_short, short="crash lost"),
)
SHOWN: Final = tuple(one for one in COLUMNS if one.title != "a crash")
BRIEF: Final = tuple(one for one in COLUMNS if one.short is not None)
LEGEND: Final = (
    "cost: bytes x packets x p99 latency, over the first; errors: by the audit; wait: from arrival "
    "to delivery; each: per delivery; packet: the largest, up to; pending: at a node, at most; "
    "~N^: bytes grow as the group to this power; crash: share of the survivors' deliveries lost "
    "when a node crashes while it sends"
)


def _pairs(comparison: Comparison) -> list[tuple[Row, Standing]]:
    return list(zip(comparison.rows, comparison.standings, strict=True))


def _wrapped(text: str, width: int, *, first: str = "", then: str = "") -> str:
    return textwrap.fill(
        text,
        width,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    )


def to_text(comparison: Comparison, *, width: int = WIDTH) -> str:
    """The comparison for a terminal, the recommendation first.

    A narrow one gets fewer columns of the table, and at least ``WIDTH_MIN`` characters.
    """
    width = min(max(width, WIDTH_MIN), WIDTH)
    pairs = _pairs(comparison)
    parts = [
        _wrapped(comparison.recommendation.sentence, width),
        _wrapped(f"load: {comparison.load}", width),
    ]
    if pairs:
        parts += ["\n".join(_aligned(pairs, width)), _wrapped(LEGEND, width)]
    labels = [one.label for one in comparison.rows] + [one.label for one in comparison.excluded]
    margin = max(map(len, labels), default=0)
    reasons = {
        "why not the others:": [(row.label, place.why) for row, place in pairs[1:]],
        "not run:": [(one.label, one.why) for one in comparison.excluded],
    }
    if comparison.recommendation.label is None:
        reasons["why not the others:"] = [(row.label, place.why) for row, place in pairs]
    for title, lines in reasons.items():
        if lines:
            told = [
                _wrapped(why, width, first=f"  {label:{margin}}  ", then=" " * (margin + 4))
                for label, why in lines
            ]
            parts.append("\n".join([title, *told]))
    return "\n\n".join(parts)


def _aligned(pairs: Sequence[tuple[Row, Standing]], width: int) -> list[str]:
    """Rows below a head of two lines: what it is, and its unit."""
    columns = list(BRIEF)
    for dropped in (None, *DROPPED):
        columns = [one for one in columns if one.short != dropped]
        titles = [(one.short or "").split(" ") for one in columns]
        cells = [[title[0] for title in titles], [title[-1] for title in titles]]
        cells += [[one.cell(row, place) for one in columns] for row, place in pairs]
        widths = [max(len(line[number]) for line in cells) for number in range(len(columns))]
        least = sum(widths) + len(widths) - 1
        if least <= width:
            break
    gap = "  " if least + len(widths) - 1 <= width else " "
    lines = []
    for line in cells:
        words = [
            f"{cell:<{room}}" if one.left else f"{cell:>{room}}"
            for one, cell, room in zip(columns, line, widths, strict=True)
        ]
        lines.append(gap.join(words).rstrip())
    return lines


def _titled(column: Column) -> str:
    return f"{column.title} ({column.unit})" if column.unit else column.title


def cells_of(comparison: Comparison) -> list[list[str]]:
    """The head and the rows of the full table, as text."""
    pairs = _pairs(comparison)
    head = [_titled(one) for one in SHOWN]
    return [head, *([one.cell(row, place) for one in SHOWN] for row, place in pairs)]


def to_markdown(comparison: Comparison) -> str:
    """The full table in Markdown, with the recommendation above it."""
    head, *rows = cells_of(comparison)
    rule = [":---" if one.left else "---:" for one in SHOWN]
    lines = [f"| {' | '.join(map(_markdown, line))} |" for line in (head, rule, *rows)]
    words = [f"**{_markdown(comparison.recommendation.sentence)}**", f"Load: {comparison.load}."]
    words += ["\n".join(lines), CPU_NOTE]
    if comparison.excluded:
        told = [f"- {_markdown(one.label)}: {_markdown(one.why)}" for one in comparison.excluded]
        words.append("\n".join(["Not run:", "", *told]))
    return "\n\n".join(words) + "\n"


def _markdown(text: str) -> str:
    for letter in "\\|*_`<[":
        text = text.replace(letter, f"\\{letter}")
    return text


def to_latex(comparison: Comparison) -> str:
    """The full table in LaTeX, for ``\\usepackage{booktabs}``; wide: use a landscape page."""
    head, *rows = cells_of(comparison)
    kinds = "".join("l" if one.left else "r" for one in SHOWN)
    lines = [" & ".join(map(_latex, line)) + r" \\" for line in (head, *rows)]
    body = "\n".join(lines[1:])
    return "\n".join(
        [
            f"% {comparison.load}",
            f"% {comparison.recommendation.sentence}",
            rf"\begin{{tabular}}{{{kinds}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *([body] if body else []),
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )


LATEX: Final = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    ">": r"\textgreater{}",
    "<": r"\textless{}",
    **{letter: f"\\{letter}" for letter in "&%$#_{}"},
}


def _latex(text: str) -> str:
    return "".join(LATEX.get(letter, letter) for letter in text)


def to_html(comparison: Comparison, *, links: Mapping[str, str] | None = None) -> str:
    """The full table in HTML; ``links`` are pages of rows by label."""
    titles = "".join(
        f'<th scope="col"{_side(one)}>{escape(one.title)}'
        f'<span class="unit">{escape(one.unit) or "&nbsp;"}</span></th>'
        for one in SHOWN
    )
    lines = []
    for row, place in _pairs(comparison):
        words = []
        for one in SHOWN:
            text = escape(one.cell(row, place))
            if one.title == "protocol":
                if links and row.label in links:
                    text = f'<a href="{escape(links[row.label])}">{text}</a>'
                words.append(f'<th scope="row">{text}</th>')
            else:
                words.append(f"<td{_side(one)}>{text}</td>")
        kind = "first" if place.rank == 1 else "unfit" if place.rank is None else "fit"
        lines.append(f'<tr class="{kind}">{"".join(words)}</tr>')
    body = "\n".join(lines)
    return (
        f'<table class="ranked"><thead><tr>{titles}</tr></thead>\n<tbody>\n{body}\n</tbody></table>'
    )


def _side(column: Column) -> str:
    kinds = ["words" if column.left else "number", column.kind]
    return f' class="{" ".join(filter(None, kinds))}"'


def flat(comparison: Comparison) -> list[dict[str, Any]]:
    """A row a protocol with one number or text in each cell, for frames and CSV."""
    found = []
    for row, place in _pairs(comparison):
        crash = row.crash
        found.append(
            {
                "rank": place.rank,
                "protocol": row.label,
                "guarantee": row.guarantee,
                "cost": place.cost,
                "front": place.front,
                "verdict": row.errors.verdict,
                "violations": row.errors.violations,
                "deliveries": row.deliveries,
                "error_share": row.errors.share,
                "error_low": row.errors.low,
                "error_high": row.errors.high,
                "lost": row.lost,
                "latency_p50_ms": row.latency_p50_ms,
                "latency_p99_ms": row.latency_p99_ms,
                "wait_ms": row.wait_ms,
                "bytes_per_delivery": row.bytes_per_delivery,
                "packets_per_delivery": row.packets_per_delivery,
                "largest_packet_bytes": row.largest_packet_bytes,
                "pending_messages": row.pending_messages,
                "pending_bytes": row.pending_bytes,
                "cpu_us_per_delivery": row.cpu_us_per_delivery,
                "bytes_exponent": row.exponents.get("bytes_per_delivery"),
                "packets_exponent": row.exponents.get("packets_per_delivery"),
                "latency_exponent": row.exponents.get("latency_p99_ms"),
                "crash_lost": None if crash is None else crash.lost,
                "crash_due": None if crash is None else crash.due,
                "crash_violations": None if crash is None else crash.violations,
                "runs": row.runs,
                "parameters": " ".join(f"{k}={v}" for k, v in sorted(row.parameters.items())),
                "why": place.why,
            }
        )
    return found

"""The table of a comparison as text, Markdown, LaTeX and plain values: one set of cells."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from precedes.comparison.ranking import Standing
from precedes.comparison.rows import Errors, Row, percent, power

if TYPE_CHECKING:
    from precedes.comparison.result import Comparison

WIDTH: Final = 100
WIDTH_MIN: Final = 50
# Columns that a narrow terminal omits, in this order.
DROPPED: Final = ("packet bytes", "pending msgs", "bytes ~N^", "wait ms", "p50 ms", "packets each")
UNKNOWN: Final = "-"
CPU: Final = "CPU, simulated"
CPU_NOTE: Final = (
    "CPU is the time of handlers in the simulator: it compares protocols, and is not a cost of a "
    "live group."
)


@dataclass(frozen=True)
class Column:
    """A column: its name in CSV files and DataFrames, its title and unit in tables.

    Without a name, a title or a ``short`` title it is not in files, in tables or on a terminal.
    Its values are the attributes of rows with its name, or with the path ``of``.
    """

    name: str
    title: str = ""
    unit: str = ""
    text: str | Callable[[Any], str] = "{}"
    short: str = ""
    left: bool = False
    kind: str = ""  # of its cells on a page, if they are not plain numbers or words
    unknown: str = UNKNOWN  # the text of None
    of: str = ""

    def value(self, row: Row, place: Standing) -> Any:
        """Its value as a number or a text, None if that is not known."""
        first, *others = (self.of or self.name).split(".")
        value: Any = place if first == "place" else getattr(row, first)
        for name in others:
            if value is not None:
                is_table = isinstance(value, Mapping)
                value = value.get(name) if is_table else getattr(value, name)
        return value

    def cell(self, row: Row, place: Standing) -> str:
        """Its value as displayed."""
        value = self.value(row, place)
        if value is None:
            return self.unknown
        return self.text.format(value) if isinstance(self.text, str) else self.text(value)


def _interval(seen: Errors) -> str:
    if seen.low is None or seen.high is None:
        return UNKNOWN
    for digits in (2, 3, 4):
        low, high = (percent(share, digits=digits) for share in (seen.low, seen.high))
        if low != high:
            break
    # A percentage is not broken at the end of a line, an interval may be.
    low, high = (text.replace(" ", "\N{NO-BREAK SPACE}") for text in (low, high))
    return f"{low} to {high}"


COLUMNS: Final = (
    Column("rank", "rank", short=" ", of="place.rank"),
    Column("protocol", "protocol", short=" protocol", left=True, of="label"),
    Column("guarantee", "guarantee", "of order", short=" order", left=True),
    Column("cost", "cost", "times the first", "{:.2f}", "cost x", of="place.cost"),
    Column("front", of="place.front"),
    Column("verdict", of="errors.verdict"),
    Column("violations", of="errors.violations"),
    Column("deliveries"),
    Column("error_share", "errors", "of deliveries", percent, "errors share", of="errors.share"),
    Column("error_low", of="errors.low"),
    Column("error_high", of="errors.high"),
    Column("", "95 % interval", "of deliveries", _interval, kind="interval", of="errors"),
    Column("lost"),
    Column("latency_p50_ms", "latency p50", "ms", "{:,.1f}", "p50 ms"),
    Column("latency_p99_ms", "latency p99", "ms", "{:,.1f}", "p99 ms"),
    Column("wait_ms", "wait for order", "ms", "{:,.2f}", "wait ms"),
    Column("bytes_per_delivery", "size", "bytes a delivery", "{:,.0f}", "bytes each"),
    Column("packets_per_delivery", "packets", "a delivery", "{:.2f}", "packets each"),
    Column(
        "largest_packet_bytes",
        "largest packet",
        "bytes, at most",
        "{:,}",
        "packet bytes",
        unknown="> 1,500",
    ),
    Column("pending_messages", "pending", "messages a node", "{:,}", "pending msgs"),
    Column("pending_bytes", "pending", "bytes a node", "{:,.0f}"),
    Column("cpu_us_per_delivery", CPU, "us a delivery", "{:.2f}"),
    Column(
        "bytes_exponent",
        "bytes grow as",
        "N to the",
        power,
        "bytes ~N^",
        of="exponents.bytes_per_delivery",
    ),
    Column("packets_exponent", of="exponents.packets_per_delivery"),
    Column("latency_exponent", of="exponents.latency_p99_ms"),
    Column("", "a node crashes", left=True, of="crash"),
    Column("", text=percent, short="crash lost", of="crash.share_lost"),
    Column("crash_lost", of="crash.lost"),
    Column("crash_due", of="crash.due"),
    Column("crash_violations", of="crash.violations"),
    Column("runs"),
    Column("parameters", of="parameters_text"),
    Column("why", of="place.why"),
)
BRIEF: Final = tuple(one for one in COLUMNS if one.short)
LEGEND: Final = (
    "cost: bytes x packets x p99 latency, over the first; errors: by the audit; wait: from arrival "
    "to delivery; each: per delivery; packet: the largest, up to; pending: at a node, at most; "
    "~N^: bytes grow as the group to this power; crash: share of the survivors' deliveries lost "
    "when a node crashes while it sends"
)


def shown(comparison: Comparison) -> list[Column]:
    """The columns of the full table, with CPU time only if all runs were compiled."""
    has_cpu = any(row.cpu_us_per_delivery is not None for row in comparison.rows)
    return [one for one in COLUMNS if one.title and (has_cpu or one.title != CPU)]


def pairs(comparison: Comparison) -> list[tuple[Row, Standing]]:
    """Rows in their order, each with its standing."""
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
    ranked = pairs(comparison)
    parts = [
        _wrapped(comparison.recommendation.sentence, width),
        _wrapped(f"load: {comparison.load}", width),
    ]
    if ranked:
        parts += ["\n".join(_aligned(ranked, width)), _wrapped(LEGEND, width)]
    labels = [one.label for one in comparison.rows] + [one.label for one in comparison.excluded]
    margin = max(map(len, labels), default=0)
    for title, lines in reasons(comparison).items():
        entries = [
            _wrapped(why, width, first=f"  {label:{margin}}  ", then=" " * (margin + 4))
            for label, why in lines
        ]
        parts.append("\n".join([f"{title.lower()}:", *entries]))
    return "\n\n".join(parts)


def reasons(comparison: Comparison) -> dict[str, list[tuple[str, str]]]:
    """The reasons against protocols, by label, under the titles of two lists."""
    recommended = comparison.recommendation.label
    lists = {
        "Why not the others": [
            (one.label, one.why) for one in comparison.standings if one.label != recommended
        ],
        "Not run": [(one.label, one.why) for one in comparison.excluded],
    }
    return {title: lines for title, lines in lists.items() if lines}


def _aligned(ranked: Sequence[tuple[Row, Standing]], width: int) -> list[str]:
    """Rows below a head of two lines: title and unit."""
    columns = list(BRIEF)
    for dropped in (None, *DROPPED):
        columns = [one for one in columns if one.short != dropped]
        titles = [one.short.split(" ") for one in columns]
        cells = [[title[0] for title in titles], [title[-1] for title in titles]]
        cells += [[one.cell(row, place) for one in columns] for row, place in ranked]
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


def _cells_of(comparison: Comparison) -> list[list[str]]:
    """The head and the rows of the full table, as text."""
    columns = shown(comparison)
    head = [f"{one.title} ({one.unit})" if one.unit else one.title for one in columns]
    return [head, *([one.cell(row, place) for one in columns] for row, place in pairs(comparison))]


def to_markdown(comparison: Comparison) -> str:
    """The full table in Markdown, with the recommendation above it."""
    head, *rows = _cells_of(comparison)
    rule = [":---" if one.left else "---:" for one in shown(comparison)]
    lines = [f"| {' | '.join(map(_markdown, line))} |" for line in (head, rule, *rows)]
    words = [f"**{_markdown(comparison.recommendation.sentence)}**", f"Load: {comparison.load}."]
    words += ["\n".join(lines), CPU_NOTE]
    if comparison.excluded:
        lines = [f"- {_markdown(one.label)}: {_markdown(one.why)}" for one in comparison.excluded]
        words.append("\n".join(["Not run:", "", *lines]))
    return "\n\n".join(words) + "\n"


def _markdown(text: str) -> str:
    for letter in "\\|*_`<[":
        text = text.replace(letter, f"\\{letter}")
    return text


def to_latex(comparison: Comparison) -> str:
    """The full table in LaTeX, for ``\\usepackage{booktabs}``; wide: use a landscape page."""
    head, *rows = _cells_of(comparison)
    kinds = "".join("l" if one.left else "r" for one in shown(comparison))
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


def flat(comparison: Comparison) -> list[dict[str, Any]]:
    """A row a protocol with one number or text in each cell, for DataFrames and CSV."""
    named = [one for one in COLUMNS if one.name]
    return [{one.name: one.value(row, place) for one in named} for row, place in pairs(comparison)]

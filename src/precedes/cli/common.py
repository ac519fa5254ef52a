"""What commands share: how options are declared, those of several commands, printing of results.

Defaults are those of what the commands call; help texts name them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from precedes.cli.terminal import show_text
from precedes.console import is_verbose, note, say, show
from precedes.delays import DELAY_HELP
from precedes.errors import Exit, UserError
from precedes.sim.scenario import Scenario
from precedes.sim.workloads import WORKLOAD_HELP
from precedes.stores import Address, local_path

if TYPE_CHECKING:
    from precedes.trace import Dialect

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


COLUMNS: Final = 80  # of a terminal that nobody has made wider

# Those of `precedes.trace`, which would take its time to import.
FORMATS: Final = (
    *("auto", "precedes", "jsonl", "members", "parquet"),
    *("shiviz", "csv", "otel", "edits", "automerge"),
)

# Fields of a scenario as options: the name of a value, and what it is.
SCENARIO: Final = {
    "nodes": ("N", "size of the group"),
    "messages": ("K", "broadcasts in all"),
    "duration_s": ("S", "or: seconds of broadcasting"),
    "rate": ("R", f"broadcasts per second ({Scenario.rate:g})"),
    "workload": ("W", f"{WORKLOAD_HELP} (default: {Scenario.workload})"),
    "delay": ("D", f"{DELAY_HELP} (default: {Scenario.delay})"),
    "loss": ("P", "probability to lose a packet"),
    "duplication": ("P", "probability to repeat one"),
    "fifo": ("", "links keep the order of packets"),
    "payload_bytes": ("BYTES", f"of a message ({Scenario.payload_bytes})"),
    "mtu_bytes": ("BYTES", "cut packets of several messages here"),
    "seed": ("S", f"one seed, one run ({Scenario.seed})"),
}


def command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *lines: tuple[str, str],
    help: str,
    description: str,
    notes: str = "",
) -> argparse.ArgumentParser:
    """Add a command: what runs it, its examples and help, and notes that stand before examples."""
    epilog = notes + examples(*lines)
    parser = commands.add_parser(name, help=help, description=description, epilog=epilog)
    parser.set_defaults(run=run)
    return parser


def option(
    parser: argparse._ActionsContainer,
    name: str,
    metavar: str | None,
    help: str | None,
    kind: Callable[[str], Any] = str,
    default: Any = None,
    **more: Any,
) -> None:
    """Add an option, or an argument, that takes a value."""
    parser.add_argument(name, metavar=metavar, help=help, type=kind, default=default, **more)


def flag(parser: argparse._ActionsContainer, name: str, help: str, **more: Any) -> None:
    """Add an option without a value: it sets true, or the ``const`` that is given."""
    action = "store_const" if "const" in more else "store_true"
    parser.add_argument(name, action=action, help=help, **more)


def add_scenario(parser: argparse.ArgumentParser, *names: str, **helps: str) -> None:
    """Options for fields of a scenario, to be read with ``given_of``; ``helps`` are other ones."""
    kinds = {item.name: str(item.type).partition(" ")[0] for item in dataclasses.fields(Scenario)}
    types = {"int": int, "float": float, "str": str}
    for name in names:
        metavar, text = SCENARIO[name]
        kind: dict[str, Any] = {"action": "store_true", "default": None}
        if kinds[name] in types:
            kind = {"type": types[kinds[name]], "metavar": metavar}
        option = f"--{name.removesuffix('_s').removesuffix('_bytes')}"
        parser.add_argument(option, dest=name, help=helps.get(name, text), **kind)


def given_of(options: argparse.Namespace, kind: type, *more: str) -> dict[str, Any]:
    """The options that set fields of a dataclass, and ``more``: what is not said has a default."""
    names = {*more, *(item.name for item in dataclasses.fields(kind))}
    return {name: one for name, one in vars(options).items() if name in names and one is not None}


def add_json(parser: argparse.ArgumentParser, *, help: str = "print JSON") -> None:
    """Results for programs."""
    flag(parser, "--json", help)


def show_json(found: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Print a result for programs: an object that says what made it."""
    from precedes.provenance import made_by

    show(json.dumps({**found, "precedes": made_by()}, indent=indent))


def answer(
    options: argparse.Namespace,
    found: Mapping[str, Any],
    text: str,
    styles: Mapping[str, str] | None = None,
    *,
    names: Iterable[str] = (),
) -> int:
    """Print a result, for programs or as ``show_text`` does; the status of success."""
    if options.json:
        show_json(found)
    else:
        show_text(text, styles, names=names)
    return Exit.DONE


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help text: commands without their first word, each with what it does.

    That stands behind the commands, or below them where a terminal is too narrow for both.
    """
    width = max(len(line) for line, _ in lines)
    shown = [f"  precedes {line:{width}}  {what}" for line, what in lines]
    if max(map(len, shown)) > COLUMNS:
        shown = [f"  precedes {line}\n      {what}" for line, what in lines]
    return "\n".join(["examples:", *shown])


def folder(text: str) -> Address:
    """The address of a directory that is there or can be made, for argparse."""
    found = Address.of(text)
    if found.is_local:
        # Whoever uses it says why it cannot be used.
        with contextlib.suppress(OSError):
            if found.local.exists() and not found.local.is_dir():
                raise argparse.ArgumentTypeError(f"{found.local} is a file: name a directory")
    return found


def local_folder(text: str) -> Path:
    """As ``folder``, on this machine alone."""
    return folder(str(local_path(text))).local


def listed(text: str) -> list[str]:
    """Names between commas, for argparse with ``action="extend"``."""
    return [name for name in text.split(",") if name]


def add_spark(parser: argparse.ArgumentParser, *, help: str) -> None:
    """The cluster that does the work, to be read with ``spark_of`` inside ``spark_told``."""
    option(parser, "--master", "URL", help)
    add_conf(parser)
    flag(parser, "--ui", "start Spark's own page, print its address")
    flag(parser, "--timings", "say on standard error what Spark's jobs took")


def add_conf(parser: argparse.ArgumentParser) -> None:
    """Settings of Spark's, to be read with ``pairs_of``."""
    help = "a setting of Spark's, such as spark.executor.memory=4g"
    option(parser, "--conf", "NAME=VALUE", help, action="append", default=[])


def spark_of(options: argparse.Namespace) -> dict[str, Any]:
    """The cluster and its settings, as arguments of what opens a session."""
    settings = pairs_of(options, "conf")
    if options.ui:
        settings["spark.ui.enabled"] = "true"
    return {"master": options.master, "settings": settings or None}


@contextlib.contextmanager
def spark_told(options: argparse.Namespace) -> Iterator[None]:
    """Say what Spark's jobs took, if that is asked for, each when it has ended."""
    if not options.timings:
        yield
        return
    from precedes.pipeline.spark import jobs

    with jobs.listening(lambda summary: say(f"Spark, {summary}")):
        yield


@contextlib.contextmanager
def kept_in(out: Address | None) -> Iterator[None]:
    """Say of an interrupt what is kept of runs, if anything is."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"finished runs are kept in {out}, and the same command goes on"
        kept = kept if out else "nothing was kept: --out DIR would"
        raise KeyboardInterrupt(f"interrupted; {kept}") from None


def add_tier(parser: argparse.ArgumentParser) -> None:
    """How a protocol runs: ``options.tier``."""
    group = parser.add_mutually_exclusive_group()
    helps = {
        "interpreted": "run as plain Python, for a debugger",
        "compiled": "wait for the compiler at first use",
    }
    for tier, help in helps.items():
        flag(group, f"--{tier}", help, dest="tier", const=tier, default="auto")


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Parameters of the protocol, to be read with ``pairs_of``."""
    help = "a protocol parameter"
    option(parser, "--set", "NAME=VALUE", help, action="append", default=[])


def pairs_of(options: argparse.Namespace, name: str) -> dict[str, str]:
    """What was given as ``NAME=VALUE`` with the option of this name."""
    values = {}
    for text in getattr(options, name):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--{name} takes NAME=VALUE, not {text!r}")
        values[key] = value
    return values


def add_format_options(parser: argparse.ArgumentParser, *, more: Sequence[str] = ()) -> None:
    """How a log is read, for ``dialect_of``; ``more`` are formats of this command alone."""
    parser.add_argument("--format", default="auto", choices=(*FORMATS, *more))
    group = parser.add_argument_group("logs of other systems ('precedes docs formats')")
    several: dict[str, Any] = {"action": "append", "default": []}
    option(group, "--parser", "EXPR", "shiviz: finds an event; groups host, clock, kind, ...")
    option(group, "--delimiter", "EXPR", "shiviz: stands between runs; csv: between cells")
    help = "csv, parquet: what columns are called, as node=host,message=id"
    option(group, "--columns", "OURS=THEIRS,...", help, **several)
    help = "what kinds are called, as deliver=recv,ignore=ack; ignore=* takes the rest"
    option(group, "--kinds", "OURS=THEIRS,...", help, **several)
    help = "otel: what makes a node (service.instance.id)"
    option(group, "--node-by", "ATTRIBUTE,...", help, listed, [], action="extend")
    flag(group, "--complete", "the log has ended: what is undelivered is lost")


def dialect_of(options: argparse.Namespace, *, pictured: bool = False) -> Dialect:
    """What was said about the log; ``pictured``: arrivals and drops are read too."""
    from precedes.trace import Dialect

    kinds: dict[str, str] = {}
    for ours, theirs in _renamed(options.kinds, "--kinds"):
        if kinds.setdefault(theirs, ours) != ours:
            raise UserError(f"--kinds says that {theirs!r} is {kinds[theirs]} and {ours}: choose")
    columns: dict[str, str] = {}
    for ours, theirs in _renamed(options.columns, "--columns"):
        if columns.setdefault(ours, theirs) != theirs:
            raise UserError(f"--columns names two for {ours}: choose one")
    return Dialect(
        parser=options.parser,
        delimiter=options.delimiter,
        columns=columns,
        kinds=kinds,
        node_by=tuple(options.node_by),
        complete=options.complete,
        pictured=pictured,
    )


def _renamed(texts: Sequence[str], option: str) -> Iterator[tuple[str, str]]:
    for part in (part for text in texts for part in text.split(",")):
        ours, _, theirs = part.partition("=")
        if not ours or not theirs:
            raise UserError(f"{option} takes OURS=THEIRS, not {part!r}")
        yield ours.strip(), theirs.strip()


def format_noted(path: Address, format: str, dialect: Dialect) -> None:
    """Note which log is read, and as what."""
    if is_verbose():
        from precedes.trace.opening import format_of

        found = format if format != "auto" else format_of(path, dialect=dialect)
        note(f"{path}: {found or 'looked at when it is read'}")

"""Shared code of commands: options, and printing of results.

Defaults are those of the functions that commands call; help texts name them.
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


COLUMNS: Final = 80  # the default width of a terminal

# Those of `precedes.trace`, which would take its time to import.
FORMATS: Final = (
    *("auto", "precedes", "jsonl", "members", "parquet"),
    *("shiviz", "csv", "otel", "edits", "automerge"),
)

# Fields of a scenario as options: the name of a value, and its meaning.
SCENARIO: Final = {
    "nodes": ("N", "size of the group"),
    "messages": ("K", "total number of broadcasts"),
    "duration_s": ("S", "length of the load in seconds"),
    "rate": ("R", f"broadcasts per second ({Scenario.rate:g})"),
    "workload": ("W", f"{WORKLOAD_HELP} (default: {Scenario.workload})"),
    "delay": ("D", f"{DELAY_HELP} (default: {Scenario.delay})"),
    "loss": ("P", "probability that a packet is lost"),
    "duplication": ("P", "probability that a packet is duplicated"),
    "fifo": ("", "deliver packets of a link in FIFO order"),
    "payload_bytes": ("BYTES", f"payload of a message in bytes ({Scenario.payload_bytes})"),
    "mtu_bytes": ("BYTES", "split packets of several messages at this size"),
    "seed": ("S", f"random seed ({Scenario.seed})"),
}


def command(
    commands: Commands,
    name: str,
    run: Callable[[argparse.Namespace], int],
    *lines: tuple[str, str],
    help: str,
    description: str | None = None,
    notes: str = "",
) -> argparse.ArgumentParser:
    """Add a command: its function, examples and help, and notes before the examples."""
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
    """Options for fields of a scenario, to be read with ``values_of``; ``helps`` are other ones."""
    kinds = {item.name: str(item.type).partition(" ")[0] for item in dataclasses.fields(Scenario)}
    types = {"int": int, "float": float, "str": str}
    for name in names:
        metavar, text = SCENARIO[name]
        kind: dict[str, Any] = {"action": "store_true", "default": None}
        if kinds[name] in types:
            kind = {"type": types[kinds[name]], "metavar": metavar}
        option = f"--{name.removesuffix('_s').removesuffix('_bytes')}"
        parser.add_argument(option, dest=name, help=helps.get(name, text), **kind)


def values_of(options: argparse.Namespace, kind: type, *more: str) -> dict[str, Any]:
    """The options that set fields of a dataclass, and ``more``; others keep their defaults."""
    names = {*more, *(item.name for item in dataclasses.fields(kind))}
    return {name: one for name, one in vars(options).items() if name in names and one is not None}


def add_json(parser: argparse.ArgumentParser, *, help: str = "print JSON") -> None:
    """Add ``--json``."""
    flag(parser, "--json", help)


def show_json(values: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Print a result as JSON, with its provenance."""
    from precedes.provenance import made_by

    show(json.dumps({**values, "precedes": made_by()}, indent=indent))


def answer(
    options: argparse.Namespace,
    values: Mapping[str, Any],
    text: str,
    styles: Mapping[str, str] | None = None,
    *,
    names: Iterable[str] = (),
) -> int:
    """Print a result, as JSON or with ``show_text``; return the status of success."""
    if options.json:
        show_json(values)
    else:
        show_text(text, styles, names=names)
    return Exit.DONE


def examples(*lines: tuple[str, str]) -> str:
    """The end of a help text: commands without their first word, each with a description.

    Descriptions are next to the commands, or below them if a terminal is too narrow for both.
    """
    width = max(len(line) for line, _ in lines)
    shown = [f"  precedes {line:{width}}  {description}" for line, description in lines]
    if max(map(len, shown)) > COLUMNS:
        shown = [f"  precedes {line}\n      {description}" for line, description in lines]
    return "\n".join(["examples:", *shown])


def folder(text: str) -> Address:
    """The address of an existing or new directory, for argparse."""
    address = Address.of(text)
    if address.is_local:
        # Its user reports why it is not usable.
        with contextlib.suppress(OSError):
            if address.local.exists() and not address.local.is_dir():
                raise argparse.ArgumentTypeError(f"{address.local} is a file: name a directory")
    return address


def local_folder(text: str) -> Path:
    """As ``folder``, on this machine alone."""
    return folder(str(local_path(text))).local


def listed(text: str) -> list[str]:
    """Names between commas, for argparse with ``action="extend"``."""
    return [name for name in text.split(",") if name]


def add_spark(parser: argparse.ArgumentParser, *, help: str) -> None:
    """Add the options of the cluster, to be read with ``spark_of`` inside ``spark_reported``."""
    option(parser, "--master", "URL", help)
    add_conf(parser)
    flag(parser, "--ui", "start the Spark UI and print its address")
    flag(parser, "--timings", "log the time of each Spark job to standard error")


def add_conf(parser: argparse.ArgumentParser) -> None:
    """Add Spark's settings, to be read with ``pairs_of``."""
    help = "Spark setting, such as spark.executor.memory=4g"
    option(parser, "--conf", "NAME=VALUE", help, action="append", default=[])


def spark_of(options: argparse.Namespace) -> dict[str, Any]:
    """The cluster and its settings, as arguments of ``open_session``."""
    settings = pairs_of(options, "conf")
    if options.ui:
        settings["spark.ui.enabled"] = "true"
    return {"master": options.master, "settings": settings or None}


@contextlib.contextmanager
def spark_reported(options: argparse.Namespace) -> Iterator[None]:
    """Report the cost of Spark's jobs, each when it has ended, if requested."""
    if not options.timings:
        yield
        return
    from precedes.pipeline.spark import jobs

    with jobs.listening(lambda summary: say(f"Spark, {summary}")):
        yield


@contextlib.contextmanager
def kept_in(out: Address | None) -> Iterator[None]:
    """Report on an interrupt where finished runs are kept, if there are any."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"finished runs are kept in {out}, and the same command resumes"
        kept = kept if out else "nothing was kept: --out DIR would"
        raise KeyboardInterrupt(f"interrupted; {kept}") from None


def add_tier(parser: argparse.ArgumentParser) -> None:
    """Add the tier of a protocol: ``options.tier``."""
    group = parser.add_mutually_exclusive_group()
    helps = {
        "interpreted": "run as plain Python, never compile",
        "compiled": "wait for the compiler if nothing is cached",
    }
    for tier, help in helps.items():
        flag(group, f"--{tier}", help, dest="tier", const=tier, default="auto")


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Add parameters of the protocol, to be read with ``pairs_of``."""
    help = "set a protocol parameter"
    option(parser, "--set", "NAME=VALUE", help, action="append", default=[])


def pairs_of(options: argparse.Namespace, name: str) -> dict[str, str]:
    """The ``NAME=VALUE`` pairs of the option with this name."""
    values = {}
    for text in getattr(options, name):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--{name} takes NAME=VALUE, not {text!r}")
        values[key] = value
    return values


def add_format_options(parser: argparse.ArgumentParser, *, more: Sequence[str] = ()) -> None:
    """Add options for reading a log, for ``dialect_of``; ``more`` are formats of one command."""
    parser.add_argument("--format", default="auto", choices=(*FORMATS, *more))
    group = parser.add_argument_group("logs of other systems ('precedes docs formats')")
    several: dict[str, Any] = {"action": "append", "default": []}
    option(group, "--parser", "EXPR", "shiviz: regular expression for an event")
    option(group, "--delimiter", "EXPR", "shiviz: separator of runs; csv: of cells")
    help = "jsonl, csv, parquet: names, e.g. node=host,message=id"
    option(group, "--columns", "OURS=THEIRS,...", help, **several)
    help = "event kinds, e.g. deliver=recv,ignore=ack; ignore=*: skip unknown kinds"
    option(group, "--kinds", "OURS=THEIRS,...", help, **several)
    help = "otel: attributes that identify a node (service.instance.id)"
    option(group, "--node-by", "ATTRIBUTE,...", help, listed, [], action="extend")
    flag(group, "--complete", "the log has ended: undelivered messages are lost")


def dialect_of(options: argparse.Namespace, *, pictured: bool = False) -> Dialect:
    """The dialect of a log from the options; ``pictured``: arrivals and drops are read too."""
    from precedes.trace import Dialect

    return Dialect.from_texts(
        parser=options.parser,
        delimiter=options.delimiter,
        columns=options.columns,
        kinds=options.kinds,
        node_by=tuple(options.node_by),
        complete=options.complete,
        pictured=pictured,
    )


def format_noted(path: Address, format: str, dialect: Dialect) -> None:
    """Note the log and its format."""
    if is_verbose():
        from precedes.trace.opening import format_of

        name = format if format != "auto" else format_of(path, dialect=dialect)
        note(f"{path}: {name or 'looked at when it is read'}")

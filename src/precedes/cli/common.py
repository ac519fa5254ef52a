"""Options that several commands share, each said once, and how results are printed.

Defaults are those of what the commands call; help texts name them.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from precedes.cli.terminal import show_text
from precedes.console import say, show
from precedes.delays import DELAY_HELP
from precedes.errors import Exit, UserError
from precedes.sim.scenario import Scenario
from precedes.sim.workloads import WORKLOAD_HELP
from precedes.stores import Address, local_path

if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


COLUMNS: Final = 80  # of a terminal that nobody has made wider

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
    parser.add_argument("--json", action="store_true", help=help)


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
    parser.add_argument("--master", metavar="URL", help=help)
    add_conf(parser)
    parser.add_argument(
        "--ui", action="store_true", help="start Spark's own page, print its address"
    )
    parser.add_argument(
        "--timings", action="store_true", help="say on standard error what Spark's jobs took"
    )


def add_conf(parser: argparse.ArgumentParser) -> None:
    """Settings of Spark's, to be read with ``pairs_of``."""
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, such as spark.executor.memory=4g",
    )


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
    from precedes.pipeline.spark import monitor

    with monitor.listening(lambda summary: say(f"Spark, {summary}")):
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
    for tier, text in helps.items():
        group.add_argument(
            f"--{tier}", dest="tier", action="store_const", const=tier, default="auto", help=text
        )


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Parameters of the protocol, to be read with ``pairs_of``."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a protocol parameter"
    )


def pairs_of(options: argparse.Namespace, name: str) -> dict[str, str]:
    """What was given as ``NAME=VALUE`` with the option of this name."""
    values = {}
    for text in getattr(options, name):
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise UserError(f"--{name} takes NAME=VALUE, not {text!r}")
        values[key] = value
    return values

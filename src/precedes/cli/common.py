"""Options that several commands share, each said once.

Defaults are those of what the commands call; help texts name them.
"""

from __future__ import annotations

import argparse
import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from precedes.console import is_verbose, note, say, show
from precedes.errors import UserError
from precedes.stores import Address, local_path

if TYPE_CHECKING:
    from precedes.trace import Dialect

    Commands = argparse._SubParsersAction[argparse.ArgumentParser]


COLUMNS: Final = 80  # of a terminal that nobody has made wider


def add_json(parser: argparse.ArgumentParser, *, help: str = "print JSON") -> None:
    """Results for programs."""
    parser.add_argument("--json", action="store_true", help=help)


def show_json(found: Mapping[str, Any], *, indent: int | None = None) -> None:
    """Print a result for programs: an object that says what made it."""
    from precedes.provenance import made_by

    show(json.dumps({**found, "precedes": made_by()}, indent=indent))


def format_noted(path: Address, format: str, dialect: Dialect) -> None:
    """Note which log is read, and as what."""
    if is_verbose():
        from precedes.trace.detect import format_of

        found = format if format != "auto" else format_of(path, dialect=dialect)
        note(f"{path}: {found or 'looked at when it is read'}")


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
        _refuse_file(found.local)
    return found


def local_folder(text: str) -> Path:
    """As ``folder``, on this machine alone."""
    found = local_path(text)
    _refuse_file(found)
    return found


def _refuse_file(path: Path) -> None:
    try:
        is_file = path.exists() and not path.is_dir()
    except OSError:  # who uses it says why it cannot be used
        return
    if is_file:
        raise argparse.ArgumentTypeError(f"{path} is a file: name a directory")


def add_out(parser: argparse.ArgumentParser, *, help: str) -> None:
    """Where the files go that a command makes."""
    parser.add_argument("--out", type=folder, required=True, metavar="DIR", help=help)


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
    """Settings of Spark's, to be read with ``settings_of``."""
    parser.add_argument(
        "--conf",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of Spark's, such as spark.executor.memory=4g",
    )


def settings_of(options: argparse.Namespace) -> dict[str, str]:
    """The settings of Spark's that were given."""
    return _pairs(options.conf, "--conf")


def spark_of(options: argparse.Namespace) -> dict[str, Any]:
    """The cluster and its settings, as arguments of what opens a session."""
    settings = settings_of(options)
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


def add_tier(parser: argparse.ArgumentParser) -> None:
    """How a protocol runs: ``options.tier``."""
    tier = parser.add_mutually_exclusive_group()
    tier.add_argument(
        "--interpreted",
        dest="tier",
        action="store_const",
        const="interpreted",
        default="auto",
        help="run as plain Python, for a debugger",
    )
    tier.add_argument(
        "--compiled",
        dest="tier",
        action="store_const",
        const="compiled",
        default="auto",
        help="wait for the compiler at first use",
    )


def add_trace(parser: argparse.ArgumentParser, *, help: str, local: bool = False) -> None:
    """Where events are kept; ``local``: on this machine alone."""
    kind = local_folder if local else folder
    parser.add_argument("--trace", type=kind, metavar="DIR", help=help)


def add_rate(parser: argparse.ArgumentParser, *, help: str, required: bool = False) -> None:
    """The load of the whole group."""
    parser.add_argument("--rate", type=float, required=required, metavar="R", help=help)


def add_members(parser: argparse.ArgumentParser, *, help: str, required: bool = False) -> None:
    """The size of a live group."""
    parser.add_argument("-n", "--members", type=int, required=required, metavar="N", help=help)


def add_protocol(parser: argparse.ArgumentParser) -> None:
    """What members of a live group speak."""
    parser.add_argument("--protocol", metavar="P", help="vector (default), vcube, ...")


def add_parameters(parser: argparse.ArgumentParser) -> None:
    """Parameters of the protocol, to be read with ``parameters_of``."""
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a protocol parameter"
    )


def given(**values: Any) -> dict[str, Any]:
    """The values that are not None: what is not said has the default of what it is handed to."""
    return {name: value for name, value in values.items() if value is not None}


def parameters_of(options: argparse.Namespace) -> dict[str, str]:
    """The protocol parameters that were given."""
    return _pairs(options.set, "--set")


def _pairs(texts: list[str], option: str) -> dict[str, str]:
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"{option} takes NAME=VALUE, not {text!r}")
        values[name] = value
    return values

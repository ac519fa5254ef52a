"""The command line: one function for each command of ``precedes``."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from precedes import __version__, console
from precedes.cli.bar import Bar
from precedes.console import one_line, say, show, tell
from precedes.errors import Exit, UserError, meant
from precedes.live.options import add_live
from precedes.pipeline.spark.daemons import add_spark

FORMATS = ("auto", "precedes", "jsonl", "members", "events")


class _Parser(argparse.ArgumentParser):
    """Mistakes in one line that points to the help of the command; options in full alone.

    An abbreviation that is understood today would be ambiguous with the next option.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings, allow_abbrev=False)
        self.add_argument(
            "--debug",
            action="store_true",
            default=argparse.SUPPRESS,  # so that a command leaves alone what stands before it
            help="add to an error where it comes from",
        )

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Refuse here what is left over: only the parser of a command knows its options."""
        found, extra = super().parse_known_args(args, namespace)
        if extra:
            name = extra[0].partition("=")[0]
            hint = meant(name, self._option_string_actions)
            self.error(f"unrecognized arguments: {' '.join(extra)}{hint}")
        return found, extra

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            known = list(map(str, action.choices))
            text = (
                f"there is no {value!r}{meant(str(value), known)}: choose from {', '.join(known)}"
            )
            raise argparse.ArgumentError(action, text)

    def error(self, message: str) -> NoReturn:
        self.exit(Exit.MISTAKE, f"precedes: {one_line(message)}; see '{self.prog} --help'\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status (docs/results.md)."""
    debug = False
    try:
        try:
            options = _parser().parse_args(arguments)
        except SystemExit as stop:  # after the help, or a mistake
            show("", end="")
            return int(stop.code or 0)
        debug = getattr(options, "debug", False)
        return int(options.run(options))
    except BaseException as error:
        return tell(error, debug=debug)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="precedes", description="Causal broadcast: simulate, audit, compare.")
    parser.add_argument("--version", action="version", version=f"precedes {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_protocols(commands)
    _add_simulate(commands)
    _add_sweep(commands)
    _add_audit(commands)
    _add_size(commands)
    _add_reproduce(commands)
    add_live(commands)
    add_spark(commands)
    return parser


def _add_protocols(commands: Any) -> None:
    parser = commands.add_parser("protocols", help="list the protocols and their parameters")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_protocols)


def _add_simulate(commands: Any) -> None:
    parser = commands.add_parser(
        "simulate",
        help="run a protocol in the simulator",
        description="Run a protocol in the simulator. Delays are in ms; the rate is of the group.",
        epilog="Faults, bandwidth, skew and more: in a scenario file, see docs/scenarios.md. "
        "Example: precedes simulate vector --nodes 20 --messages 1000 --trace traces",
    )
    parser.add_argument("protocol", nargs="?", help="a name, or a file of your own ending in .py")
    parser.add_argument("--scenario", type=Path, metavar="FILE", help="start from a TOML file")
    parser.add_argument("--nodes", type=int, metavar="N", help="size of the group")
    parser.add_argument("--messages", type=int, metavar="K", help="broadcasts in all")
    parser.add_argument("--duration", type=float, metavar="S", help="or: seconds of broadcasting")
    parser.add_argument("--rate", type=float, metavar="R", help="broadcasts per second (100)")
    parser.add_argument(
        "--workload",
        metavar="W",
        help="poisson (default), periodic, window:MS[:TIMES], exponential:MS[:TIMES], "
        "burst:NODES:EACH, bell:LOW:HIGH, random:LOW:HIGH, replay:FILE",
    )
    parser.add_argument(
        "--delay",
        metavar="D",
        help="normal:100:20 (default), constant:MS, uniform:LOW:HIGH, loguniform:LOW:HIGH, "
        "lognormal:MEDIAN:SIGMA, exponential:MEAN, spiky:MS:PEAK, matrix:FILE, matrix_s:FILE",
    )
    parser.add_argument("--per-link", action="store_true", help="draw a delay once for each link")
    parser.add_argument("--loss", type=float, metavar="P", help="probability to lose a packet")
    parser.add_argument("--duplication", type=float, metavar="P", help="probability to repeat one")
    parser.add_argument("--fifo", action="store_true", help="links keep the order of packets")
    parser.add_argument(
        "--mtu", type=int, metavar="BYTES", help="cut packets of several messages here"
    )
    parser.add_argument("--seed", type=int, metavar="S", help="one seed, one run (1)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="a protocol parameter"
    )
    parser.add_argument("--no-oracle", action="store_true", help="do not count errors: faster")
    parser.add_argument("--trace", type=Path, metavar="DIR", help="write the trace into DIR")
    parser.add_argument("--packets", action="store_true", help="with --trace: packets too")
    parser.add_argument(
        "--interpreted", action="store_true", help="run as plain Python, for a debugger"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_simulate)


def _add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="run an experiment file: protocols, parameters, seeds, on all cores or a cluster",
        description="Run a scenario file with a [sweep] table (docs/pipeline.md) on Spark. The "
        "same command goes on after an interrupt. Exit status 3 if runs failed.",
    )
    parser.add_argument("experiment", type=Path, metavar="EXPERIMENT.toml")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR")
    parser.add_argument("--master", metavar="URL", help="a Spark master (local[*]: all cores)")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_sweep)


def _add_audit(commands: Any) -> None:
    parser = commands.add_parser(
        "audit",
        help="check causal order in logs, with a witness for what is wrong",
        description="Check causal order. Exit status 0: held, 1: violated, 3: unknown.",
    )
    parser.add_argument(
        "path",
        nargs="+",
        type=Path,
        help="traces, logs, directories of them, or - (standard input)",
    )
    parser.add_argument("--format", default="auto", choices=FORMATS)
    parser.add_argument("--master", metavar="URL", help="use Spark, on this master")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_audit)


def _add_size(commands: Any) -> None:
    parser = commands.add_parser(
        "size",
        help="how large a clock has to be for a load, or what a clock of a size gives",
        description="Size a clock of probabilistic or hashed by a formula for the share of "
        "deliveries that probabilistic gets wrong.",
    )
    parser.add_argument("--rate", type=float, required=True, metavar="R", help="broadcasts/s, all")
    parser.add_argument("--nodes", type=int, required=True, metavar="N", help="size of the group")
    parser.add_argument("--error", type=float, metavar="E", help="share of deliveries, as 1e-4")
    parser.add_argument("--entries", type=int, metavar="M", help="or: the size of the clock")
    parser.add_argument("--per-process", type=int, default=2, metavar="K", help="entries each (2)")
    parser.add_argument("--delay", default="normal:100:20", metavar="D", help="normal:MEAN:SD")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=_size)


def _add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce", help="regenerate published figures beside the printed values"
    )
    parser.add_argument("paper", nargs="*", help="names such as vcube or 000; none: all")
    scale = parser.add_mutually_exclusive_group()
    scale.add_argument("--quick", action="store_true", help="few seeds, short runs (default)")
    scale.add_argument("--full", action="store_true", help="ten seeds, runs as in the papers")
    parser.add_argument("--out", type=Path, required=True, metavar="DIR", help="for the report")
    parser.add_argument("--master", metavar="URL", help="the Spark master to run on")
    parser.set_defaults(run=_reproduce)


def _protocols(options: argparse.Namespace) -> int:
    from precedes.registry import load, names

    protocols = [load(name) for name in names()]
    if options.json:
        rows = [
            {
                "name": p.name,
                "summary": p.summary,
                "guarantee": p.guarantee,
                "assumes": sorted(p.assumes),
                "parameters": p.parameter_help(),
            }
            for p in protocols
        ]
        show(json.dumps(rows, indent=2))
        return 0
    width = max(len(p.name) for p in protocols)
    for p in protocols:
        show(f"{p.name:{width}}  {p.summary}")
        assumes = f"; assumes {', '.join(sorted(p.assumes))}" if p.assumes else ""
        show(f"{'':{width}}  guarantee: {p.guarantee}{assumes}")
        for row in p.parameter_help():
            show(f"{'':{width}}    {row['name']}={row['default']}  {row['help']}")
    return 0


def _simulate(options: argparse.Namespace) -> int:
    from precedes.sim.result import to_text
    from precedes.sim.runs import simulate, warnings

    scenario = _scenario(options)
    if options.packets and options.trace is None:
        raise UserError("--packets goes with --trace DIR")
    trace = None if options.trace is None else _trace_path(options.trace, scenario)
    for line in warnings(scenario):
        say(line)
    with Bar(f"simulate {scenario.protocol}") as bar:
        result = simulate(
            scenario,
            trace=trace,
            packets=options.packets,
            progress=bar.update,
            interpreted=options.interpreted,
        )
    if options.json:
        show(json.dumps({**result.as_dict(), "trace": None if trace is None else str(trace)}))
    else:
        show(to_text(result))
        if trace is not None:
            show(f"trace       {trace}")
    return 0


def _trace_path(directory: Path, scenario: Any) -> Path:
    """Where the trace of a scenario goes in a directory, which is made if it is not there."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"cannot make the directory {directory}: {error.strerror}") from None
    # The same scenario gives the same file; another one never replaces it.
    text = json.dumps(scenario.unusual(), sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:6]
    name = Path(scenario.protocol).stem
    return directory / f"{name}-{scenario.nodes}-{scenario.seed}-{digest}.parquet"


def _scenario(options: argparse.Namespace) -> Any:
    """The scenario of the options, on top of a file if one is named."""
    from precedes.sim import Scenario, from_toml
    from precedes.sim.inputs.graph import read_graph

    given = {
        "protocol": options.protocol,
        "nodes": options.nodes,
        "messages": options.messages,
        "duration_s": options.duration,
        "rate": options.rate,
        "workload": options.workload,
        "delay": options.delay,
        "per": "link" if options.per_link else None,
        "loss": options.loss,
        "duplication": options.duplication,
        "fifo": options.fifo or None,
        "mtu_bytes": options.mtu,
        "seed": options.seed,
        "oracle": False if options.no_oracle else None,
        "parameters": _assignments(options.set) or None,
    }
    values = {name: value for name, value in given.items() if value is not None}
    if options.scenario is not None:
        base = from_toml(options.scenario)
        same = values.get("protocol", base.protocol) == base.protocol
        # The file's parameters are those of its own protocol.
        inherited = base.parameters if same else {}
        values["parameters"] = {**inherited, **values.get("parameters", {})}
        return base.replace(**values)
    if "protocol" not in values:
        raise UserError("name a protocol, or a scenario with --scenario FILE")
    if "nodes" not in values and values.get("workload", "").startswith("replay:"):
        graph = read_graph(Path(values["workload"].partition(":")[2]))
        values["nodes"] = max(graph.agents, 2)
    if "nodes" not in values:
        raise UserError("say how many nodes: --nodes N")
    return Scenario(**values)


def _assignments(texts: list[str]) -> dict[str, str]:
    values = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise UserError(f"--set takes NAME=VALUE, not {text!r}")
        values[name] = value
    return values


def _sweep(options: argparse.Namespace) -> int:
    from precedes.pipeline.command import sweep

    return sweep(options)


def _audit(options: argparse.Namespace) -> int:
    from precedes.audit import to_json, to_text

    reports = _reports(options)
    combined = to_json(reports)
    show(json.dumps(combined) if options.json else to_text(reports).rstrip())
    return Exit.of(combined["verdict"])


def _reports(options: argparse.Namespace) -> list[Any]:
    """What the audit says of each run: few and small logs here, others on Spark."""
    from precedes.audit import audit
    from precedes.pipeline.layout import is_for_spark, logs_in
    from precedes.trace import load

    tables = options.format == "events"
    paths = options.path if tables else _logs([logs_in(path) for path in options.path])
    if tables or is_for_spark(paths, master=options.master):
        from precedes.pipeline.command import audit_on_spark

        return audit_on_spark(paths, format=options.format, master=options.master)
    reports = []
    with Bar("audit") as bar:
        for number, path in enumerate(paths):
            reports += [audit(history) for history in load(path, format=options.format)]
            bar.update((number + 1) / len(paths))
    return reports


def _size(options: argparse.Namespace) -> int:
    from precedes.parts.sizing import size

    found = size(
        rate=options.rate,
        nodes=options.nodes,
        error=options.error,
        entries=options.entries,
        per_process=options.per_process,
        delay=options.delay,
    )
    show(json.dumps(found.as_dict()) if options.json else found)
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    from precedes.papers.outcome import reproduce
    from precedes.pipeline.spark.session import require_pyspark
    from precedes.report import check_available, write_report

    missing = []
    for extra, check in {"report": check_available, "spark": require_pyspark}.items():
        try:
            check()
        except UserError:
            missing.append(extra)
    if missing:
        extras = ",".join(missing)
        raise UserError(f"this needs what is not installed: pip install 'precedes[{extras}]'")
    with Bar("reproduce") as bar:
        outcomes = reproduce(
            options.paper,
            directory=options.out,
            scale="full" if options.full else "quick",
            master=options.master,
            progress=bar.update,
        )
    index = write_report(outcomes, options.out)
    show((options.out / "summary.txt").read_text(encoding="utf-8"))
    show(f"written to {index}")
    return 0


def _logs(paths: list[Path]) -> list[Path]:
    """The files named, and those in the directories named."""
    from precedes.trace.members import holds_member_logs
    from precedes.trace.source import STANDARD_INPUT

    if paths.count(STANDARD_INPUT) > 1:
        raise UserError("standard input can be read only once: name - once")
    endings = (".parquet", ".jsonl", ".jsonl.gz")
    found: list[Path] = []
    for path in paths:
        # Path.is_dir raises for what may not be looked at.
        if os.path.isdir(path) and not holds_member_logs(path):
            inside = sorted(p for p in path.iterdir() if p.name.endswith(endings))
            if not inside:
                raise UserError(f"{path} holds no traces or logs ({', '.join(endings)})")
            found += inside
        else:
            found.append(path)
    return found


def run() -> NoReturn:
    """The entry point of the installed command."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    console.run(main)

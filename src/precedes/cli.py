"""The command line: one function for each command of ``precedes``."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from precedes import __version__
from precedes.live.options import add_live
from precedes.model import InternalError, PrecedesError, UserError
from precedes.progress import Bar

EXIT_HELD = 0
EXIT_VIOLATED = 1
EXIT_ERROR = 2
EXIT_INTERRUPTED = 130

FORMATS = ("auto", "precedes", "jsonl", "members", "events")


class _Parser(argparse.ArgumentParser):
    """Mistakes in one line, without the usage text in front of them."""

    def error(self, message: str) -> NoReturn:
        self.exit(EXIT_ERROR, f"precedes: {message}; see '{self.prog} --help'\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    try:
        options = _parser().parse_args(arguments)
        status: int = options.run(options)
        sys.stdout.flush()
        return status
    except InternalError as error:
        print(
            f"precedes: this is a defect of precedes or of the protocol: {error}", file=sys.stderr
        )
        return EXIT_ERROR
    except PrecedesError as error:
        print(f"precedes: {_one_line(str(error))}", file=sys.stderr)
        return EXIT_ERROR
    except MemoryError:
        print("precedes: out of memory: use fewer nodes or messages", file=sys.stderr)
        return EXIT_ERROR
    except BrokenPipeError:
        # The reader of a pipe has gone; nothing is left to say, not even at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_ERROR
    except KeyboardInterrupt:
        print("precedes: interrupted; nothing was left half-written", file=sys.stderr)
        return EXIT_INTERRUPTED


def _one_line(text: str) -> str:
    return " ".join(text.split())


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
        "lognormal:MEDIAN:SIGMA, exponential:MEAN, spiky:MS:PEAK, matrix:FILE",
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
        "same command goes on after an interrupt. Exit status 2 if runs failed.",
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
        description="Check causal order. Exit status 0: held, 1: violated, 2: unknown.",
    )
    parser.add_argument("path", nargs="+", type=Path, help="traces, logs, or directories of them")
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
    from precedes.protocols import load, names

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
        print(json.dumps(rows, indent=2))
        return 0
    width = max(len(p.name) for p in protocols)
    for p in protocols:
        print(f"{p.name:{width}}  {p.summary}")
        for row in p.parameter_help():
            print(f"{'':{width}}    {row['name']}={row['default']}  {row['help']}")
    return 0


def _simulate(options: argparse.Namespace) -> int:
    from precedes.recorded import simulate, trace_path
    from precedes.sim.assumptions import warnings
    from precedes.sim.result import to_text

    scenario = _scenario(options)
    if options.packets and options.trace is None:
        raise UserError("--packets goes with --trace DIR")
    trace = None if options.trace is None else trace_path(options.trace, scenario)
    for line in warnings(scenario):
        print(f"precedes: {line}", file=sys.stderr)
    with Bar(f"simulate {scenario.protocol}") as bar:
        result = simulate(
            scenario,
            trace=trace,
            packets=options.packets,
            progress=bar.update,
            interpreted=options.interpreted,
        )
    if options.json:
        print(json.dumps({**result.as_dict(), "trace": None if trace is None else str(trace)}))
    else:
        print(to_text(result))
        if trace is not None:
            print(f"trace       {trace}")
    return 0


def _scenario(options: argparse.Namespace) -> Any:
    """The scenario of the options, on top of a file if one is named."""
    from precedes.sim import Scenario, from_toml
    from precedes.sim.graph import read_graph

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
    print(json.dumps(combined) if options.json else to_text(reports).rstrip())
    return {"held": EXIT_HELD, "violated": EXIT_VIOLATED}.get(combined["verdict"], EXIT_ERROR)


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
    from precedes.sizing import size

    found = size(
        rate=options.rate,
        nodes=options.nodes,
        error=options.error,
        entries=options.entries,
        per_process=options.per_process,
        delay=options.delay,
    )
    print(json.dumps(found.as_dict()) if options.json else found)
    return 0


def _reproduce(options: argparse.Namespace) -> int:
    from precedes.papers.outcome import reproduce
    from precedes.report import check_available, write_report

    check_available()
    with Bar("reproduce") as bar:
        outcomes = reproduce(
            options.paper,
            directory=options.out,
            scale="full" if options.full else "quick",
            master=options.master,
            progress=bar.update,
        )
    index = write_report(outcomes, options.out)
    print((options.out / "summary.txt").read_text(encoding="utf-8"), end="")
    print(f"\nwritten to {index}")
    return 0


def _logs(paths: list[Path]) -> list[Path]:
    """The files named, and those in the directories named."""
    from precedes.trace.members import holds_member_logs

    endings = (".parquet", ".jsonl", ".jsonl.gz")
    found: list[Path] = []
    for path in paths:
        if path.is_dir() and not holds_member_logs(path):
            inside = sorted(p for p in path.iterdir() if p.name.endswith(endings))
            if not inside:
                raise UserError(f"{path} holds no traces or logs ({', '.join(endings)})")
            found += inside
        else:
            found.append(path)
    return found


def run() -> NoReturn:
    """The entry point of the installed command."""
    signal.signal(signal.SIGTERM, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    sys.exit(main())


if __name__ == "__main__":
    run()

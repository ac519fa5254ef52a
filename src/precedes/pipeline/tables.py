"""The tables of a sweep: every schema, and the rows from records of runs.

The settings of runs are in typed columns of ``runs``: a field of the scenario is a column of its
own name, a parameter is ``param_<name>``: of its value where a run's protocol has it, and null
elsewhere.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

import pyarrow as pa

from precedes import registry
from precedes.pipeline.directory import TRACES, Record
from precedes.pipeline.execute import FAILED, FINISHED
from precedes.pipeline.plan import PlannedRun, name_of
from precedes.pipeline.spark.jobs import Summary
from precedes.sim import Scenario
from precedes.sim.scenario import Fault

INT: Final = pa.int32()
LONG: Final = pa.int64()
DOUBLE: Final = pa.float64()
TEXT: Final = pa.string()
FLAG: Final = pa.bool_()


def _schema(
    required: Mapping[str, pa.DataType], optional: Mapping[str, pa.DataType] | None = None
) -> pa.Schema:
    fields = [pa.field(name, kind, nullable=False) for name, kind in required.items()]
    return pa.schema([*fields, *(pa.field(*item) for item in (optional or {}).items())])


def _of(kind: pa.DataType, names: str) -> dict[str, pa.DataType]:
    return dict.fromkeys(names.split(), kind)


def _all_but_first(schema: pa.Schema) -> dict[str, pa.DataType]:
    return dict(zip(schema.names[1:], schema.types[1:], strict=True))


# The types of the columns of scenarios and parameters.
PLAIN: Final = {int: LONG, float: DOUBLE, str: TEXT, bool: FLAG}
# A result's own counters have columns with this prefix; so have parameters of protocols.
COUNTER: Final = "extra_"
PARAMETER: Final = "param_"

# Cells of a summary: runs that differ in the seed alone.
CELL: Final = _of(TEXT, "experiment protocol params")

RESULTS: Final = _schema(
    {"run_id": INT},
    {
        **_of(LONG, "broadcasts deliveries packets messages_sent bytes_sent violating_deliveries"),
        **_of(LONG, "violating_messages lost duplicates pending_max pending_at_end"),
        **_of(DOUBLE, "reception_ms_mean delivery_ms_mean delivery_ms_p50 delivery_ms_p99"),
        **{"simulated_s": DOUBLE, "complete": FLAG},
    },
)
RUNS: Final = _schema(
    {
        **{"run_id": INT, "experiment": TEXT, "number": INT, "protocol": TEXT, "params": TEXT},
        **{"nodes": INT, "seed": LONG, "status": TEXT},
    },
    {"error": TEXT, **_all_but_first(RESULTS)},
)
MANIFEST: Final = _schema(
    {
        **{"run_id": INT, "path": TEXT, "rows": LONG, "bytes": LONG},
        **{"sha256": TEXT, "code_version": TEXT, "schema_version": INT},
    }
)
TIMINGS: Final = _schema({"run_id": INT, "cpu_s": DOUBLE, "wall_s": DOUBLE})
TIMINGS_SPARK: Final = _schema(
    {"job": INT, "title": TEXT, "wall_s": DOUBLE, "tasks": LONG},
    {"failed_tasks": LONG, "task_s": DOUBLE, "java_cpu_s": DOUBLE, "shuffled_bytes": LONG},
)
MEASURES: Final = _schema(
    {"run_id": INT},
    {
        "latency_us_mean": DOUBLE,
        **_of(LONG, "latency_us_p50 latency_us_p90 latency_us_p99 latency_us_p999 latency_us_max"),
        **{"held_mean": DOUBLE, "held_max": LONG},
    },
)
LATENCY_HIST: Final = _schema({"run_id": INT, **_of(LONG, "low_us high_us deliveries")})
OCCUPANCY: Final = _schema(
    {
        **_of(INT, "run_id bin"),
        **_of(LONG, "start_us end_us"),
        **{"held_mean": DOUBLE, "held_max": LONG},
    }
)
AUDIT_RUNS: Final = _schema(
    {
        **{"run_id": INT, "verdict": TEXT, "nodes": INT},
        **_of(LONG, "messages deliveries violations violating_messages lost duplicates phantom"),
        **_of(LONG, "cycles unjudged undelivered_at_end"),
    }
)
VIOLATIONS: Final = _schema(
    {"run_id": INT, "kind": TEXT, **_of(INT, "node source seq")},
    {**_of(INT, "witness_source witness_seq"), "sentence": TEXT},
)
RUN_METRICS: Final = _schema(
    {"run_id": INT, **CELL, "number": INT, "seed": LONG},
    {
        **_of(LONG, "broadcasts deliveries packets bytes_sent"),
        **_of(DOUBLE, "messages_per_packet bytes_per_delivery packets_per_broadcast"),
        **{"violating_deliveries": LONG, "violation_share": DOUBLE},
        **_of(LONG, "lost pending_max"),
        **_of(DOUBLE, "reception_ms_mean delivery_ms_mean waiting_ms_mean"),
        **_of(DOUBLE, "delivery_ms_p50 delivery_ms_p99"),
        **_all_but_first(MEASURES),
    },
)
PROTOCOL_SUMMARY: Final = _schema(
    {**CELL, "metric": TEXT, "runs": INT}, _of(DOUBLE, "mean low high")
)
LATENCY_BY_PROTOCOL: Final = _schema({**CELL, **_of(LONG, "low_us high_us")}, {"deliveries": LONG})
OCCUPANCY_BY_PROTOCOL: Final = _schema(
    {**CELL, **_of(INT, "bin runs")}, {"held_mean": DOUBLE, "held_max": LONG}
)

# Faults with a longer description are represented by a digest.
FAULTS_CHARACTERS_MAX: Final = 100

# Columns that tables of runs have anyway, and values that are not scalars.
ELSEWHERE: Final = ("protocol", "nodes", "seed", "parameters", "faults")

Row = dict[str, Any]


def table(rows: Sequence[Row], schema: pa.Schema) -> pa.Table:
    """Rows with the types of a schema; missing values are null."""
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def plain_tables(by_run: Mapping[int, Record]) -> dict[str, pa.Table]:
    """The tables that follow from records of runs without computation."""
    records = sorted(by_run.items())
    bins = ("low_us", "high_us", "deliveries")
    stretches = ("start_us", "end_us", "held_mean", "held_max")
    rows: dict[str, tuple[pa.Schema, list[Row]]] = {
        "measures": (
            MEASURES,
            [
                {
                    "run_id": run_id,
                    **{f"latency_us_{k}": v for k, v in record["measures"]["latency_us"].items()},
                    **{f"held_{k}": v for k, v in record["measures"]["held"].items()},
                }
                for run_id, record in records
                if record["measures"]
            ],
        ),
        "audit_runs": (
            AUDIT_RUNS,
            [{**record["audit"], "run_id": at} for at, record in records if record["audit"]],
        ),
        # Up to five of a kind and run.
        "violations": (
            VIOLATIONS,
            [
                {**finding, "run_id": run_id}
                for run_id, record in records
                for finding in (record["audit"] or {}).get("findings", [])
            ],
        ),
        "latency_hist": (LATENCY_HIST, _listed_rows(records, "latency_histogram", bins)),
        "occupancy": (OCCUPANCY, _listed_rows(records, "held_bins", stretches)),
        "manifest": (
            MANIFEST,
            [
                {
                    **record["trace"],
                    "run_id": run_id,
                    "path": f"{TRACES}/{name_of(run_id)}.parquet",
                    "code_version": record["code_version"],
                }
                for run_id, record in records
                if record["trace"]
            ],
        ),
        "timings": (TIMINGS, [{**record["result"], "run_id": at} for at, record in records]),
    }
    plain = {name: table(listed, schema) for name, (schema, listed) in rows.items()}
    return {"results": _results_table(records), **plain}


def _listed_rows(
    records: Sequence[tuple[int, Record]], key: str, names: Sequence[str]
) -> list[Row]:
    """The lists under a key of the measures, a row for each entry, numbered as ``bin``."""
    return [
        {"run_id": run_id, "bin": number, **dict(zip(names, entry, strict=True))}
        for run_id, record in records
        for number, entry in enumerate((record["measures"] or {}).get(key, []))
    ]


def _results_table(records: Sequence[tuple[int, Record]]) -> pa.Table:
    """A row of ``RESULTS`` for each record, and a column for each of their counters."""
    rows: list[Row] = []
    counters: set[str] = set()
    for run_id, record in records:
        result = record["result"]
        violations = result["violations"] or {"deliveries": None, "messages": None}
        latency = result["latency"]
        extra = {COUNTER + name: float(value) for name, value in result["extra"].items()}
        counters |= extra.keys()
        rows.append(
            {
                **{name: result[name] for name in RESULTS.names if name in result},
                "violating_deliveries": violations["deliveries"],
                "violating_messages": violations["messages"],
                "reception_ms_mean": latency["reception_mean"],
                "delivery_ms_mean": latency["delivery_mean"],
                "delivery_ms_p50": latency["p50"],
                "delivery_ms_p99": latency["p99"],
                **extra,
                "run_id": run_id,
            }
        )
    return table(rows, pa.schema([*RESULTS, *((name, DOUBLE) for name in sorted(counters))]))


def runs_table(
    runs: Sequence[PlannedRun],
    results: pa.Table,
    errors: Mapping[int, str],
    params: Mapping[tuple[str, int], str],
) -> pa.Table:
    """A row for every planned run: its identity, its ``results_table`` row, and its settings."""
    finished_rows = {row["run_id"]: row for row in results.to_pylist()}
    types = scenario_types() | parameter_types(run.scenario.protocol for run in runs)
    rows = [
        {
            **finished_rows.get(run.run_id, {}),
            **cells(run.scenario, types),
            "run_id": run.run_id,
            "experiment": run.experiment,
            "number": run.number,
            "protocol": run.scenario.protocol,
            "params": params.get((run.experiment, run.number), ""),
            "nodes": run.scenario.nodes,
            "seed": run.scenario.seed,
            "status": FINISHED if run.run_id in finished_rows else FAILED,
            "error": None if run.run_id in finished_rows else errors.get(run.run_id, "not run"),
        }
        for run in runs
    ]
    counters = [name for name in results.column_names if name.startswith(COUNTER)]
    more = {name: PLAIN[kind] for name, kind in types.items()}
    more |= dict.fromkeys(sorted(counters), DOUBLE)
    return table(rows, pa.schema([*RUNS, *more.items()]))


def job_rows(took: Sequence[Summary]) -> list[Row]:
    """The costs of Spark's jobs, in the order in which they ended."""
    return [{"job": number, **summary._asdict()} for number, summary in enumerate(took)]


def scenario_types() -> dict[str, type]:
    """The scenario's columns and their types."""
    plain = {"int": int, "float": float, "str": str, "bool": bool}
    types = {
        field.name: plain[str(field.type).removesuffix(" | None")]
        for field in dataclasses.fields(Scenario)
        if field.name not in ELSEWHERE
    }
    return {**types, "faults": str}


def parameter_types(protocols: Iterable[str]) -> dict[str, type]:
    """The columns of these protocols' parameters and their types, by name.

    Where two protocols have a parameter of one name and different types, numbers become float and
    everything else text.
    """
    kinds: dict[str, set[type]] = {}
    for protocol in sorted(set(protocols)):
        for name, value in vars(registry.load(protocol).make_parameters({})).items():
            kind = next((kind for kind in (bool, int, float) if isinstance(value, kind)), str)
            kinds.setdefault(PARAMETER + name, set()).add(kind)
    return {name: _common(types) for name, types in sorted(kinds.items())}


def _common(types: set[type]) -> type:
    if len(types) == 1:
        return next(iter(types))
    return float if types == {int, float} else str


def cells(scenario: Scenario, types: Mapping[str, type]) -> dict[str, Any]:
    """The values of one run in columns of ``scenario_types`` and ``parameter_types``."""
    parameters = vars(registry.load(scenario.protocol).make_parameters(scenario.parameters))
    values = {
        **{name: getattr(scenario, name) for name in scenario_types() if name != "faults"},
        "faults": faults_word(scenario.faults),
        **{PARAMETER + name: value for name, value in parameters.items()},
    }
    return {
        name: None if value is None else types[name](value)
        for name, value in values.items()
        if name in types
    }


def faults_word(faults: Sequence[Fault]) -> str:
    """Faults as one word: their descriptions, or a digest if that is long."""
    words = []
    for fault in faults:
        said = {k: v for k, v in asdict(fault).items() if v != getattr(Fault, k, None)}
        kind = said.pop("kind")
        words.append(f"{kind}({','.join(f'{k}={_plain(v)}' for k, v in said.items())})")
    text = "+".join(words) or "none"
    if len(text) <= FAULTS_CHARACTERS_MAX:
        return text
    return f"{len(faults)}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _plain(value: Any) -> str:
    return "/".join(map(str, value)) if isinstance(value, tuple) else str(value)

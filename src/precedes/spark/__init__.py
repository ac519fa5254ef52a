"""The exact audit as Spark users expect it: lazy transforms of DataFrames, SQL, a data source.

    runs = events.transform(causal_audit())            # one row per run: verdict, counts, witnesses
    violations = runs.transform(causal_violations())   # one row per witness
    findings = events_stream.transform(causal_audit_stream())   # one row per finding

``transforms`` has the first two. They start no job: the plan has one shuffle, by run, and runs when
its result is used. ``stream`` keeps the state of each run in Spark's store. ``register`` makes
``causal_audit`` a table function of SQL, and ``spark.read.format("precedes")`` read logs of every
format (``data_source``). ``audit_giant`` judges runs that are too large for one task.
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.spark.giant import audit_giant
    from precedes.spark.stream import causal_audit_stream
    from precedes.spark.table_function import register
    from precedes.spark.transforms import causal_audit, causal_violations

_HOMES = {
    "audit_giant": ".giant",
    "causal_audit": ".transforms",
    "causal_audit_stream": ".stream",
    "causal_violations": ".transforms",
    "register": ".table_function",
}

__all__ = ["audit_giant", "causal_audit", "causal_audit_stream", "causal_violations", "register"]

__getattr__, __dir__ = exports(__name__, _HOMES, extra="spark")

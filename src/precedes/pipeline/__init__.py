"""Batch work in processes of a machine or on Spark: sweeps over scenarios, audits of many logs.

``plan`` makes runs of experiments, ``directory`` lists which of them are finished, ``sweep`` hands
the others to a ``runner``, whose processes ``execute`` them and take ``measures``; ``tables`` are
made of their records, ``metrics`` computed from these, ``output`` writes them to files, and
``views`` reads those as DataFrames. ``audit`` judges existing logs: small ones whole, large ones by
``ranges``, those in no order after ``unordered`` has sorted them; ``events`` are DataFrames of
them. Spark itself: ``spark``.

Importing this package imports neither Spark nor Numba; using it does.
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.pipeline.audit import audit_files, audit_tables
    from precedes.pipeline.events import read_events
    from precedes.pipeline.spark.session import open_session
    from precedes.pipeline.sweep import Sweep, run_experiments, run_sweep
    from precedes.pipeline.views import open_tables, read_traces
    from precedes.sim.experiment import Experiment, from_file

_HOMES = {
    "Experiment": "precedes.sim.experiment",
    "Sweep": ".sweep",
    "audit_files": ".audit",
    "audit_tables": ".audit",
    "from_file": "precedes.sim.experiment",
    "open_session": ".spark.session",
    "open_tables": ".views",
    "read_events": ".events",
    "read_traces": ".views",
    "run_experiments": ".sweep",
    "run_sweep": ".sweep",
}

__all__ = [
    "Experiment",
    "Sweep",
    "audit_files",
    "audit_tables",
    "from_file",
    "open_session",
    "open_tables",
    "read_events",
    "read_traces",
    "run_experiments",
    "run_sweep",
]

__getattr__, __dir__ = exports(__name__, _HOMES, extra="spark")

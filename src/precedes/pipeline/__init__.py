"""Batch work on Spark: sweeps over scenarios, and audits of many logs.

Data goes through the modules in this order: ``plan`` makes runs of experiments, ``directory`` knows
which of them are finished, ``dispatch`` hands the others to Spark, whose tasks ``execute`` them and
take ``measures``; ``tabulate`` reads their records, ``tables`` and ``metrics`` make frames of them,
and ``output`` files; ``sweep`` does all of it, and ``views`` are those files for SQL. ``audit``
judges logs that are there already: small ones whole, large ones by ``ranges``, those in no order
after ``unordered`` has sorted them; ``events`` are frames of them. Spark itself: ``spark``.

Importing this package imports neither Spark nor Numba; using it does.
"""

from typing import TYPE_CHECKING

from precedes.lazy import exports

if TYPE_CHECKING:
    from precedes.pipeline.audit import audit_files, audit_tables
    from precedes.pipeline.datasource import register_source
    from precedes.pipeline.events import audit_events, read_events
    from precedes.pipeline.spark.session import open_session
    from precedes.pipeline.stream import follow_stream, open_stream
    from precedes.pipeline.sweep import Sweep, run_experiments, run_sweep
    from precedes.pipeline.tables import read_traces
    from precedes.pipeline.views import open_tables
    from precedes.sim.experiment import Experiment, from_file

_HOMES = {
    "Experiment": "precedes.sim.experiment",
    "Sweep": ".sweep",
    "audit_events": ".events",
    "audit_files": ".audit",
    "audit_tables": ".audit",
    "follow_stream": ".stream",
    "from_file": "precedes.sim.experiment",
    "open_session": ".spark.session",
    "open_stream": ".stream",
    "open_tables": ".views",
    "read_events": ".events",
    "read_traces": ".tables",
    "register_source": ".datasource",
    "run_experiments": ".sweep",
    "run_sweep": ".sweep",
}

__all__ = [
    "Experiment",
    "Sweep",
    "audit_events",
    "audit_files",
    "audit_tables",
    "follow_stream",
    "from_file",
    "open_session",
    "open_stream",
    "open_tables",
    "read_events",
    "read_traces",
    "register_source",
    "run_experiments",
    "run_sweep",
]

__getattr__, __dir__ = exports(__name__, _HOMES, extra="spark")

"""Batch work on Spark: sweeps over scenarios, and audits of many logs.

Data goes through the modules in this order: ``plan`` makes runs of experiments, ``directory`` knows
which of them are finished, ``dispatch`` hands the others to Spark, whose tasks ``execute`` them and
take ``measures``; ``tables`` and ``metrics`` make frames of their records, and ``output`` files;
``sweep`` does all of it. ``audit`` judges logs that are there already. Spark itself: ``spark``.

Importing this package imports neither Spark nor Numba; using it does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precedes.pipeline.audit import audit_events, audit_files
    from precedes.pipeline.sweep import Sweep, run_experiments, run_sweep
    from precedes.pipeline.tables import read_events
    from precedes.sim.experiment import Experiment, from_file

_HOMES = {
    "Experiment": "precedes.sim.experiment",
    "Sweep": "precedes.pipeline.sweep",
    "audit_events": "precedes.pipeline.audit",
    "audit_files": "precedes.pipeline.audit",
    "from_file": "precedes.sim.experiment",
    "read_events": "precedes.pipeline.tables",
    "run_experiments": "precedes.pipeline.sweep",
    "run_sweep": "precedes.pipeline.sweep",
}

__all__ = [
    "Experiment",
    "Sweep",
    "audit_events",
    "audit_files",
    "from_file",
    "read_events",
    "run_experiments",
    "run_sweep",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'precedes.pipeline' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)

"""Batch work on Spark: sweeps over scenarios, and audits of many logs.

Importing this package imports neither Spark nor Numba; using it does.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from precedes.pipeline.sweep import Sweep, run_experiments, run_sweep

__all__ = ["Sweep", "run_experiments", "run_sweep"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'precedes.pipeline' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module("precedes.pipeline.sweep"), name)

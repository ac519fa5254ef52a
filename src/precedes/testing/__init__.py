"""A conformance suite that runs any protocol: by name, or from a file of your own.

``assert_conforms("my_protocol.py")`` in a test, or ``python -m precedes.testing my_protocol.py``
in a shell, loads the file, checks the contract, and runs it on random schedules: groups,
workloads, networks and faults that all come from one seed. On every schedule

- the same seed gives the same trace, compiled and interpreted, with ample room and with so
  little that everything has to grow;
- handlers keep the rules of ``precedes.contract``: what was sent never changes, every
  reference is ended once;
- the exact audit confirms the protocol's promises, and counts what the oracle in the loop counts.

A failure names its seed, and the seed alone repeats it; its ``kind`` classifies it, so that a
test of a defective copy can expect exactly the defect that was planted (``Kind``).

>>> from precedes.testing import conformance
>>> conformance("vector", schedules=2, compiled=False).failures
()
"""

from precedes.testing.collector import Collector, Observed, observe
from precedes.testing.conformance import (
    Conformance,
    assert_conforms,
    check_agreement,
    check_same,
    check_scenario,
    conformance,
)
from precedes.testing.scenarios import random_scenario
from precedes.testing.watch import Breach, Failure, Kind

__all__ = [
    "Breach",
    "Collector",
    "Conformance",
    "Failure",
    "Kind",
    "Observed",
    "assert_conforms",
    "check_agreement",
    "check_same",
    "check_scenario",
    "conformance",
    "observe",
    "random_scenario",
]

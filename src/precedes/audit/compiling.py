"""Compiles all loops of audits, by auditing a log that needs every one of them."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from precedes.audit.growing.auditor import Auditor
from precedes.audit.growing.kernel import SWEEP, TAKE
from precedes.audit.judge import FINISH, JUDGE
from precedes.audit.logs import audit
from precedes.audit.order import COLLECT
from precedes.audit.pasts import FIND_PASTS, RESET
from precedes.audit.table import CYCLES, FILL, MEASURE, PRUNE, RESOLVE
from precedes.compiled import Entry
from precedes.compiled.compiler import Work
from precedes.model import EventKind
from precedes.trace.rows import numbered_history
from precedes.trace.tail import Rows

LOOPS: Final[tuple[Entry[..., Any], ...]] = (
    FIND_PASTS, RESET, CYCLES, COLLECT, JUDGE, FINISH, PRUNE, MEASURE, FILL, RESOLVE, TAKE, SWEEP,
)  # fmt: skip

B, D = int(EventKind.BROADCAST), int(EventKind.DELIVER)


class _AllLoops(Work):
    """All of the loops, represented by the first."""

    __slots__ = ()

    def compile(self) -> None:
        """Audit a log in which two messages precede each other, and one that grows."""
        audit(
            numbered_history(
                nodes=2,
                offsets=np.array([0, 2, 4], np.int64),
                kind=np.array([D, B, D, B], np.int8),
                source=np.array([1, 0, 0, 1], np.int32),
                seq=np.ones(4, np.int32),
                title="a cycle",
                complete=True,
            )
        )
        growing = Auditor(nodes=2, is_closed=True)
        node = np.zeros(1, np.int32)
        growing.feed(Rows(node, np.array([B], np.int8), np.ones(1, np.int64)))
        growing.make_room()


def work(_subject: str) -> Work:
    """The recipe of audits for ``compiled.compiler``."""
    return _AllLoops(FIND_PASTS, None, (), ())

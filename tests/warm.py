"""Building the compiled engine once, however many test processes need it."""

import fcntl
import functools

from precedes import compiled
from precedes.audit import audit
from precedes.protocols import linked
from precedes.sim import Scenario
from precedes.testing import Collector, observe


@functools.cache
def up() -> None:
    """Have every protocol of the package, and the audit, compiled and loaded.

    Building one takes many seconds of CPU and is cached on disk. Of two test processes each
    takes what the other is not at; at the end both load what both have built.
    """
    left = ["audit", *linked()]
    compiled.cache_root().mkdir(parents=True, exist_ok=True)
    for wait in (False, True):
        for name in list(left):
            with (compiled.cache_root() / f"{name}.lock").open("w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    continue
                _build(name)
                left.remove(name)


def _build(name: str) -> None:
    if name == "audit":
        audit(Collector().history(nodes=2))
    else:
        observe(Scenario(protocol=name, nodes=2, messages=1))

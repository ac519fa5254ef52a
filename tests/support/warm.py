"""Building the compiled engine once, however many test processes need it."""

import fcntl
import functools
from collections.abc import Callable

from precedes import compiled
from precedes.audit import audit
from precedes.live.member.node import Node, Settings
from precedes.registry import linked
from precedes.sim import Scenario
from precedes.testing import Collector, observe

# Compiling a step takes many seconds of CPU: `probabilistic`, which is `hashed` without its hash,
# runs compiled in `make swarm` and interpreted in other tests.
LIVE = ("vector", "vcube", "bundled", "hashed")


@functools.cache
def up() -> None:
    """Have every protocol of the package, and the audit, compiled and loaded."""
    _build_all({name: functools.partial(_build, name) for name in ("audit", *linked())})


@functools.cache
def up_live() -> None:
    """Have the step of a live member compiled for the protocols that live tests use."""
    _build_all({f"live-{name}": functools.partial(_build_live, name) for name in LIVE})


def _build_all(builders: dict[str, Callable[[], object]]) -> None:
    """Building one takes many seconds of CPU and is cached on disk.

    Of two test processes each takes what the other is not at; at the end both load what both
    have built.
    """
    left = list(builders)
    compiled.cache_root().mkdir(parents=True, exist_ok=True)
    for wait in (False, True):
        for name in list(left):
            with (compiled.cache_root() / f"{name}.lock").open("w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    continue
                builders[name]()
                left.remove(name)


def _build_live(name: str) -> None:
    Node(Settings(member=0, members=2, protocol=name)).prepare()


def _build(name: str) -> None:
    if name == "audit":
        audit(Collector().history(nodes=2))
    else:
        observe(Scenario(protocol=name, nodes=2, messages=1))

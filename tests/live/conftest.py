"""What the tests of live groups share."""

import fcntl
import functools

import pytest

from precedes import compiled
from precedes.live.node import Node, Settings

PROTOCOLS = ("vector", "vcube", "bundled", "probabilistic", "hashed")


@functools.cache
def build():
    """Have the compiled step of every protocol in the cache, built by one test process each."""
    compiled.cache_root().mkdir(parents=True, exist_ok=True)
    left = list(PROTOCOLS)
    for wait in (False, True):
        for name in list(left):
            with (compiled.cache_root() / f"live-{name}.lock").open("w") as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
                except BlockingIOError:
                    continue
                Node(Settings(member=0, members=2, protocol=name)).prepare()
                left.remove(name)


@pytest.fixture(scope="session")
def live():
    """The compiled steps, for tests that start processes which would each build their own."""
    build()

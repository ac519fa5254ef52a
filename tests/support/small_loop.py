"""A loop that compiles in a moment, and recipes for its compiler that wait, count or fail."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from precedes import compiled
from precedes.compiled import cache, tiers
from precedes.compiled.recipes import Work
from precedes.sim import run


def double(numbers):
    """Double all numbers; how many there are."""
    for i in range(numbers.size):
        numbers[i] *= 2
    return numbers.size


def fail(numbers):
    """What no compiler makes anything of."""
    return numbers.no_such_thing


def compilation(recipe="work", subject="", *, body=double):
    """A compilation of the loop that knows of no other."""
    entry = compiled.Entry(body, label="a small loop")
    where = f"{__name__}:{recipe}"
    return tiers.Compilation(entry, None, (Path(__file__),), recipe=where, subject=subject)


def arguments():
    """What the loop takes."""
    return (np.arange(5),)


def work(_subject):
    """The loop itself."""
    entry = compiled.Entry(double, label="a small loop")
    return Work(entry, None, (Path(__file__),), arguments())


def broken(_subject):
    """A loop that does not compile."""
    entry = compiled.Entry(fail, label="a broken loop")
    return Work(entry, None, (Path(__file__),), arguments())


class Kept(NamedTuple):
    """The loop out of a warm cache, kept as a compiler keeps what it has compiled."""

    before: Callable[[], object] = lambda: None

    def compile(self):
        code = work("")
        directory = code.entry.directory(code.key, code.own)
        (warm,) = Path(os.environ["WARM_CACHE"]).rglob("double-*.nbc")
        directory.mkdir(parents=True, exist_ok=True)
        self.before()
        cache.keep(directory / warm.name, warm.read_bytes())


def kept(_subject):
    """The loop, without a compiler."""
    return Kept()


def held(folder):
    """The same once there is a file ``go``; each process leaves a file with its number."""
    (Path(folder) / f"compiler-{os.getpid()}").touch()
    while not (Path(folder) / "go").exists():
        time.sleep(0.01)
    return Kept()


def held_beside_cache(_subject):
    """The same, with the file ``go`` beside the cache."""
    return held(cache.cache_root().parent)


def _spoil():
    shutil.rmtree(cache.cache_root())
    cache.cache_root().touch()


def spoiled(_subject):
    """The loop, whose place in the cache cannot be written any more when it is compiled."""
    return Kept(_spoil)


class _Copied(NamedTuple):
    digest: str

    def compile(self):
        target = cache.cache_root() / self.digest
        shutil.copytree(Path(os.environ["WARM_CACHE"]) / self.digest, target, dirs_exist_ok=True)


def from_warm_cache(protocol):
    """The engine's loop for a protocol, out of another cache."""
    work = run.work(protocol)
    return _Copied(work.entry.directory(work.key, work.own).parent.name)


def await_ready(code, *, timeout_s=60.0):
    """Ask until the code is there or will never be."""
    end_s = time.monotonic() + timeout_s
    while not code.is_ready() and code.failure is None:
        assert time.monotonic() < end_s
        time.sleep(0.01)

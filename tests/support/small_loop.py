"""A loop that compiles in a moment, and what a compiler does with it: wait, fail, or make it."""

import os
import shutil
import time
from pathlib import Path

import numpy as np

from precedes import compiled
from precedes.compiled import cache, compiler
from precedes.compiled.compiler import Code, Work
from precedes.errors import UserError
from precedes.live.member import node
from precedes.sim import run

OWN = (Path(__file__),)
compiler.RECIPES["small"] = f"{__name__}:work"


def double(numbers):
    """Double all numbers; how many there are."""
    for i in range(numbers.size):
        numbers[i] *= 2
    return numbers.size


def fail(numbers):
    """A subject that does not compile."""
    return numbers.no_such_thing


def entry_of(subject):
    """The loop, or one that does not compile."""
    body = fail if subject == "broken" else double
    return compiled.Entry(body, label="a small loop", job="small")


def code(subject=""):
    """Its machine code, known to nobody else; the subject is what its compiler does."""
    return Code(entry_of(subject), None, OWN, subject=subject)


def arguments():
    """The arguments of the loop."""
    return (np.arange(5),)


class Staged(Work):
    """The loop, after what the subject says; if there is a warm cache, out of that."""

    def compile(self):
        word, _, place = self.subject.partition(" ")
        if word == "held":  # until there is a file
            while not (Path(place) / "go").exists():
                time.sleep(0.01)
        elif word in ("endless", "failing"):
            {"endless": endless, "failing": failing}[word](place)
        elif word == "spoiled":  # nothing can be written there any more
            place = cache.cache_root() / self.entry.directory(self.key, self.own).parts[0]
            shutil.rmtree(place)
            place.touch()
        if warm := os.environ.get("WARM_CACHE"):
            for path in Path(warm).rglob("double-*.nbc"):
                cache.keep(cache.cache_root() / path.relative_to(warm), path.read_bytes())
        else:
            super().compile()


def work(subject):
    """The result of a compiler for a subject."""
    made = Staged(entry_of(subject), None, OWN, arguments())
    made.subject = subject
    return made


class _Copied(Work):
    """A loop whose code is copied: compilers let others go first, and may take minutes."""

    def compile(self):
        place = self.entry.directory(self.key, self.own)
        source = Path(os.environ["WARM_CACHE"]) / place
        shutil.copytree(source, cache.cache_root() / place, dirs_exist_ok=True)


def simulator(name):
    """The engine's loop for a protocol, out of a warm cache."""
    return _Copied(*run.work(name))


def live(name):
    """The step of a live member, out of a warm cache."""
    return _Copied(*node.work(name))


def endless(_subject):
    """Takes longer than any test, as what a compiler makes for any protocol."""
    time.sleep(600)


def failing(_subject):
    """Finds that it cannot be done."""
    raise UserError("it does not compile")


def await_over(code, *, timeout_s=60.0):
    """Ask until the code is there or will never be."""
    end_s = time.monotonic() + timeout_s
    while not code.is_cached() and code.failure is None:
        code.begin()
        assert time.monotonic() < end_s
        time.sleep(0.01)

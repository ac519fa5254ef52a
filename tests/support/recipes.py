"""What compiler processes of tests are told: to compile nothing, in several ways."""

import os
import shutil
import time
from pathlib import Path

from precedes import compiled
from precedes.errors import UserError
from precedes.live.member import node

# Names the cache that ``copied`` takes code from.
WARM = "PRECEDES_TEST_WARM_CACHE"


def endless(subject):
    """Takes longer than any test."""
    time.sleep(600)


def failing(subject):
    """Finds that it cannot be done."""
    raise UserError(f"{subject} cannot be compiled")


class Copied:
    """Code that was compiled before: a compiler is niced, and may take minutes when all is busy."""

    def __init__(self, work):
        self.place = work.entry.directory(work.key, work.own)

    def compile(self):
        """Fill the cache."""
        source = Path(os.environ[WARM]) / self.place.relative_to(compiled.cache_root())
        shutil.copytree(source, self.place, dirs_exist_ok=True)


def copied(subject):
    """The step of a live member."""
    return Copied(node.work(subject))

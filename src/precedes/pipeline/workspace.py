"""Where an audit on Spark keeps its parts and blocks: a work folder, or a temporary one."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from precedes.audit.logs import opened_work
from precedes.audit.work import PartStore
from precedes.errors import UserError
from precedes.files import make_directory, own_directory
from precedes.pipeline.spark import jobs
from precedes.pipeline.spark.session import scratch_base
from precedes.stores import Address, Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Workspace:
    """Parts by the name of a run, and directories for blocks."""

    def __init__(self, parts: Callable[[str], PartStore], base: Path | None) -> None:
        self._parts = parts
        self._base = base

    def run(self, name: str) -> PartStore:
        """Where the parts of a run are."""
        return self._parts(name)

    def directory(self, name: str) -> Path:
        """A directory of this machine's, or that all machines see, for what is sorted."""
        if self._base is None:
            raise UserError(
                "what is in no order is sorted in a directory that all machines see: name one with "
                "`work`, not a place in a store"
            )
        make_directory(self._base / name)
        return self._base / name


@contextlib.contextmanager
def open_workspace(
    spark: SparkSession,
    work: Place | None,
    *,
    logs: Sequence[Address] = (),
    options: Mapping[str, object] | None = None,
    fresh: bool = False,
) -> Iterator[Workspace]:
    """A work folder for the audit of these logs; without a name, one that is gone afterwards.

    The machines of a cluster need one that all of them see. Blocks, which take 9 to 20 bytes a
    row, do not go to stores: there they stay on this machine if it is alone.
    """
    alone = bool(jobs.sharers(spark))
    if work is None and not alone:
        raise UserError(
            "the machines of a cluster need a folder that all of them see: name one with `work`"
        )
    with contextlib.ExitStack() as stack:
        base: Path | None = None
        if alone and (work is None or not Address.of(work).is_local):
            base = own_directory(scratch_base(), "precedes-audit-")
            stack.callback(shutil.rmtree, base, ignore_errors=True)
        elif work is not None and Address.of(work).is_local:
            base = Address.of(work).absolute().local
        kept = stack.enter_context(opened_work(work, logs, options or {}, fresh=fresh))
        if kept is not None:
            yield Workspace(kept.run, base)
            return
        assert base is not None
        yield Workspace(lambda name: PartStore(Address.of(base / name)), base)

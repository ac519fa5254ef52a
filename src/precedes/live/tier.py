"""In which tier a member takes its steps, and how it gets to a faster one.

A member whose compiled step is not in the cache begins interpreted at once. When its steps have
cost some time it has a compiler process fill the cache, and goes on compiled between two turns of
the loop. Nothing of this blocks the loop: code is loaded in a thread.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, TypeVar

from precedes import console, waiting
from precedes.compiled import tiers
from precedes.compiled.tiers import Compilation
from precedes.errors import InternalError
from precedes.live.member.node import Node
from precedes.live.member.output import Output
from precedes.model import NANOSECONDS_PER_S

log = logging.getLogger("precedes.live")

T = TypeVar("T")

# A compiler is worth its seconds for a member whose steps have cost so much, or that lives.
BUSY_NS: Final = NANOSECONDS_PER_S // 2
LIVES_S: Final = 5.0
LOOK_EVERY_S: Final = 0.1
THREAD: Final = "precedes: load"
COMPILING: Final = "compiling a live member for first use (some seconds; then cached)"
# Who is cancelled while code is loaded waits so long for the thread, which ends by itself.
LOAD_S: Final = 2.0


class Tier:
    """The steps of one member, interpreted or compiled; ``run`` takes one, as ``Node.run`` does."""

    def __init__(self, node: Node, tier: str) -> None:
        self.run: Callable[..., Output] = self._run_interpreted
        self.is_compiled = False
        self._node = node
        self._wanted = node.protocol.resolve_tier(tier)
        self._is_worth_it = asyncio.Event()
        self._spent_ns = 0

    def _run_interpreted(self, now_ns: int, *, force: bool = False) -> Output:
        began_ns = time.thread_time_ns()
        try:
            return self._node.run(now_ns, force=force)
        finally:
            self._spent_ns += time.thread_time_ns() - began_ns
            if self._spent_ns >= BUSY_NS:
                self._is_worth_it.set()

    def _use(self, body: Callable[..., int]) -> None:
        self._node.use(body)
        self.is_compiled = True
        self.run = self._node.run

    async def prepare(self) -> None:
        """Before others know this member: load what is in the cache, or wait for all of it.

        Loading takes a while and would make the member a slow one later.
        """
        if self._wanted == "interpreted":
            return
        body = await _in_thread(self._load_cached)
        if body is None and self._wanted == "compiled":
            if not console.is_quiet():
                waiting.tell_once(COMPILING)
            body = await self._have_compiled()
        if body is not None:
            self._use(body)

    def _load_cached(self) -> Callable[..., int] | None:
        return self._load() if self._node.compilation.is_cached() else None

    def _load(self) -> Callable[..., int] | None:
        with _loading:
            return self._node.load()

    async def climb(self) -> None:
        """Go on compiled as soon as that can be, if it is worth it; once a member runs."""
        me = self._node.settings.member
        if self.is_compiled:
            return
        if self._wanted == "interpreted":
            if not self._node.protocol.is_plain:
                log.info("member %d stays interpreted, as its tier or %s says", me, tiers.VARIABLE)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LIVES_S):
                await self._is_worth_it.wait()
        try:
            self._use(await self._have_compiled())
        except Exception as error:  # the group goes on as it is
            log.warning("member %d stays interpreted, which is slow: %s", me, error)
        else:
            log.info("member %d goes on compiled", me)

    async def _have_compiled(self) -> Callable[..., int]:
        """The compiled step, as soon as there is one; InternalError if there will be none."""
        compilation = self._node.compilation
        with _wanting(compilation):
            await _in_thread(compilation.begin)
            while compilation.failure is None:
                if not compilation.is_ready():
                    await asyncio.sleep(LOOK_EVERY_S)
                elif compilation.is_made_here and self._wanted == "auto":
                    # It would keep a thread busy for longer than the group may live.
                    raise InternalError("compiled code can be kept nowhere")
                elif (body := await _in_thread(self._load)) is not None:
                    return body
                else:
                    await _in_thread(compilation.begin)
        raise InternalError(compilation.failure)


_loading: Final = threading.Lock()  # of several members in a process the first one loads for all
_counting: Final = threading.Lock()
_wanted_by: Final[Counter[Compilation[..., Any]]] = Counter()


@contextlib.contextmanager
def _wanting(compilation: Compilation[..., Any]) -> Iterator[None]:
    """Have the compiler run while any member in this process waits for it, and no longer."""
    with _counting:
        _wanted_by[compilation] += 1
    try:
        yield
    finally:
        with _counting:
            _wanted_by[compilation] -= 1
            if not _wanted_by[compilation]:
                del _wanted_by[compilation]
                compilation.end()


async def _in_thread(work: Callable[[], T]) -> T:
    """Do something that takes a while in a thread of its own, which ends with it."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    done.add_done_callback(lambda ended: ended.cancelled() or ended.exception())

    def tell(result: T | None, error: BaseException | None) -> None:
        if done.cancelled():
            return
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(result)  # type: ignore[arg-type]

    def run() -> None:
        result = error = None
        try:
            result = work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, result, error)

    threading.Thread(target=run, name=THREAD, daemon=True).start()
    try:
        return await asyncio.shield(done)
    except asyncio.CancelledError:
        await asyncio.wait([done], timeout=LOAD_S)
        raise

"""In which tier a member takes its steps, and how it gets to a faster one.

A member whose compiled step is not in the cache begins interpreted at once, has a compiler make
it, and goes on compiled between two turns of the loop. Nothing of this blocks the loop: threads
look for the machine code and load it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from precedes import console, waiting
from precedes.compiled import tiers
from precedes.errors import InternalError
from precedes.live.member.node import Node

log = logging.getLogger("precedes.live")

LOOK_EVERY_S: Final = 0.2
COMPILING: Final = "compiling a live member for first use (some seconds; then cached)"


class Tier:
    """How one member takes its steps."""

    def __init__(self, node: Node, tier: str) -> None:
        self.is_compiled = False
        self._node = node
        self._wanted = node.protocol.resolve_tier(tier)

    def _use(self, body: Callable[..., int]) -> None:
        self._node.use(body)
        self.is_compiled = True

    async def prepare(self) -> None:
        """Before others know this member: load what is in the cache, or wait for the compiler.

        Loading takes a while and would make the member a slow one later.
        """
        if self._wanted == "interpreted":
            return
        body = await asyncio.to_thread(self._node.load)
        if body is None and self._wanted == "compiled":
            if not console.is_quiet():
                waiting.tell_once(COMPILING)
            body = await self._have_compiled()
        if body is not None:
            self._use(body)

    async def climb(self) -> None:
        """Go on compiled as soon as that can be; once a member runs."""
        me = self._node.settings.member
        if self.is_compiled:
            return
        if self._wanted == "interpreted":
            if not self._node.protocol.is_plain:
                log.info("member %d stays interpreted, as its tier or %s says", me, tiers.VARIABLE)
            return
        try:
            self._use(await self._have_compiled())
        except Exception as error:  # the group goes on as it is
            log.warning("member %d stays interpreted, which is slow: %s", me, error)
        else:
            log.info("member %d goes on compiled", me)

    async def _have_compiled(self) -> Callable[[Any, Any], int]:
        """The compiled step, as soon as there is one; InternalError if there will be none."""
        code = self._node.code
        while (body := await asyncio.to_thread(self._node.load)) is None:
            await asyncio.to_thread(code.begin, then=self._wanted == "auto")
            if code.failure is not None:
                raise InternalError(code.failure)
            await asyncio.sleep(LOOK_EVERY_S)
        return body

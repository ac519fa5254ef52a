"""The tier of a member's steps, and its change to the compiled one.

A member whose compiled step is not in the cache begins interpreted at once, starts a compiler for
it, and changes to the compiled step between two turns of the loop. Nothing of this blocks the loop:
threads look for the machine code and load it.
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
    """The tier of one member's steps, through all epochs."""

    def __init__(self, node: Node, tier: str) -> None:
        self._node = node
        self._body: Callable[..., int] | None = None  # the compiled step
        self._wanted = node.protocol.resolve_tier(tier)
        self._member = node.settings.member

    @property
    def is_compiled(self) -> bool:
        """Return whether the node runs compiled."""
        return self._body is not None

    def _use(self, body: Callable[..., int]) -> None:
        self._body = body
        self._node.use(body)

    def adopt(self, node: Node) -> None:
        """The node of the next epoch: it runs as the one before."""
        self._node = node
        if self._body is not None:
            node.use(self._body)

    async def prepare(self) -> None:
        """Before others know this member: load the step from the cache, or wait for the compiler.

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
        """Change to the compiled step as soon as possible; called once a member runs."""
        me = self._member
        if self.is_compiled:
            return
        if self._wanted == "interpreted":
            if not self._node.protocol.is_plain:
                log.info(
                    "member %d stays interpreted, as its tier or %s requires", me, tiers.VARIABLE
                )
            return
        try:
            self._use(await self._have_compiled())
        except Exception as error:  # the group continues unchanged
            log.warning("member %d stays interpreted, which is slow: %s", me, error)
        else:
            log.info("member %d now runs compiled", me)

    async def _have_compiled(self) -> Callable[[Any, Any], int]:
        """The compiled step, as soon as there is one; InternalError if there will be none."""
        code = self._node.code
        while (body := await asyncio.to_thread(self._node.load)) is None:
            await asyncio.to_thread(code.begin, then=self._wanted == "auto")
            if code.failure is not None:
                raise InternalError(code.failure)
            await asyncio.sleep(LOOK_EVERY_S)
        return body

"""Text cut into blocks of whole lines."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import Final, NamedTuple

from precedes.errors import UserError
from precedes.trace.unpack import BOM

BLOCK_BYTES: Final = 1 << 20
LINE_BYTES_MAX: Final = 64 << 20


class Block(NamedTuple):
    """Some whole lines and the number of the first, from 1."""

    first: int
    text: bytes


def blocks(
    file: io.BufferedReader, *, title: str, block_bytes: int = BLOCK_BYTES
) -> Iterator[Block]:
    """Whole lines, about ``block_bytes`` at a time; a longer line comes whole, up to a limit.

    A line of more than ``LINE_BYTES_MAX`` is a UserError. Lines read before an error come first,
    so that a mistake in them is told, not the error.
    """
    waiting = bytearray()
    first = 1
    at_start = True
    while True:
        try:
            part = file.read1(block_bytes)
        except BaseException:
            yield Block(first, bytes(waiting[: waiting.rfind(b"\n") + 1]))
            raise
        waiting += part
        if at_start and (len(waiting) >= len(BOM) or not part):
            del waiting[: len(BOM) if waiting.startswith(BOM) else 0]
            at_start = False
        if not part:
            yield Block(first, bytes(waiting))
            return
        if len(waiting) >= block_bytes and b"\n" in part:
            end = waiting.rfind(b"\n") + 1
            text = bytes(waiting[:end])
            yield Block(first, text)
            first += text.count(b"\n")
            del waiting[:end]
        elif len(waiting) > max(LINE_BYTES_MAX, block_bytes):
            number = first + waiting.count(b"\n")
            raise UserError(
                f"{title}, line {number}: more than {LINE_BYTES_MAX >> 20} MB without a line end: "
                "a record is a line"
            )

"""A member on a terminal: broadcasts lines of standard input, prints deliveries."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from typing import Final

from precedes.console import complain, say, show
from precedes.errors import Exit, UserError
from precedes.live.config import Config
from precedes.live.group import Group, run_loop
from precedes.live.member.output import Message
from precedes.model import printable

READ_BYTES: Final = 1 << 16
MISSING_EVERY_S: Final = 1.0
NAMED_MAX: Final = 8


def run(config: Config, *, head: dict[str, str] | None = None) -> int:
    """Take part until the input has ended here and at all others; the exit status.

    With a ``head`` deliveries are printed as JSON lines, the first of which has the head.
    """
    try:
        run_loop(_take_part(config, head=head))
    except (KeyboardInterrupt, asyncio.CancelledError):
        complain(f"interrupted; member {config.member} has left the group")
        return Exit.INTERRUPTED
    return Exit.DONE


async def _take_part(config: Config, *, head: dict[str, str] | None) -> None:
    """As ``run``; SIGTERM leaves the group with a view, and cancels it before and after that."""
    this = asyncio.current_task()
    assert this is not None
    group = Group.open(config)
    tasks: list[asyncio.Task[None]] = []
    leaving: list[asyncio.Task[None]] = []

    def stop() -> None:
        if leaving or not tasks:
            this.cancel()
        else:
            tasks[0].cancel()
            leaving.append(asyncio.create_task(group.leave()))

    with contextlib.suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop)
    naming = asyncio.create_task(_name_missing(group))
    try:
        async with group:
            naming.cancel()
            say(f"member {config.member} is ready")
            if head is not None:
                names = [group.name_of(member) for member in group.view]
                about = {
                    "member": group.member, "members": len(names),
                    "names": names, "protocol": config.protocol, "precedes": head,
                }  # fmt: skip
                show(json.dumps(about))
            tasks += [
                asyncio.create_task(_broadcast_lines(group)),
                asyncio.create_task(_print(group, json_lines=head is not None)),
            ]
            try:
                await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
                await asyncio.gather(*leaving, return_exceptions=True)
            finally:
                for task in tasks:
                    task.cancel()
                ends = await asyncio.gather(*tasks, return_exceptions=True)
            for end in ends:
                if isinstance(end, Exception):
                    raise end
        if leaving:
            say(f"member {config.member} has left the group")
    finally:
        naming.cancel()


async def _name_missing(group: Group) -> None:
    """Print the members that are missing, when that changes."""
    named: list[int] = []
    while True:
        await asyncio.sleep(MISSING_EVERY_S)
        missing = sorted(group.missing_links())
        if missing and missing != named:
            config = group.config
            addresses = dict(enumerate(f" at {address}" for address in config.addresses))
            names = [group.name_of(peer) + addresses.get(peer, "") for peer in missing[:NAMED_MAX]]
            more = len(missing) - len(names)
            rest = f" and {more} more" if more else ""
            say(f"waiting for member {', '.join(names)}{rest}; Ctrl-C ends it")
            named = missing


async def _broadcast_lines(group: Group) -> None:
    async for line in _lines(group.config.payload_max_bytes):
        await group.broadcast(line)
    await group.finish()


async def _lines(size_bytes_max: int) -> AsyncIterator[bytes]:
    """Lines of the standard input; without credit they stay in the pipe.

    A thread reads them, which works for terminals, pipes and files alike. It is still blocked in a
    read at the end, and holds no lock then: that of ``sys.stdin`` would abort the interpreter.
    """
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[bytes] = asyncio.Queue()
    turn = threading.Semaphore(1)
    descriptor = sys.stdin.fileno()

    def read() -> None:
        data = None
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while data != b"":
                try:
                    data = os.read(descriptor, READ_BYTES)
                except OSError as error:
                    complain(f"cannot read standard input any more: {error.strerror}")
                    data = b""
                if data:
                    turn.acquire()
                loop.call_soon_threadsafe(parts.put_nowait, data)

    threading.Thread(target=read, daemon=True).start()
    rest = b""
    while data := await parts.get():
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
        if len(rest) > size_bytes_max:
            raise UserError(f"a line of the input has more than {size_bytes_max} bytes")
        turn.release()
    if rest:
        yield rest


async def _print(group: Group, *, json_lines: bool) -> None:
    async for batch in group.batches():
        shown = [
            _json(message) if json_lines else _text(message, group.name_of(message.sender))
            for message in batch
        ]
        show("\n".join(shown))


def _text(message: Message, sender: str) -> str:
    text = message.payload.decode(errors="replace")
    # Others choose the bytes; a terminal would interpret control sequences.
    return f"{sender}: {printable(text) if sys.stdout.isatty() else text}"


def _json(message: Message) -> str:
    payload = message.payload.decode(errors="replace")
    return json.dumps({"sender": message.sender, "sequence": message.sequence, "payload": payload})

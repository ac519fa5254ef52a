"""What ``precedes node``, ``precedes cluster`` and ``precedes keys`` do."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from precedes.console import say, show
from precedes.errors import Exit, UserError
from precedes.live.cluster import run as clusters
from precedes.live.config import Config, Security, from_toml
from precedes.live.group import Group
from precedes.live.member.node import Node
from precedes.live.member.output import Message
from precedes.live.net.security import key_files, make_keys
from precedes.model import printable

READ_BYTES: Final = 1 << 16
TELL_EVERY_S: Final = 1.0  # who is missing, if that changes
NAMED_MAX: Final = 8


def node(options: argparse.Namespace) -> int:
    """Broadcast lines, print what is delivered."""
    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(level=level, format="precedes: %(message)s", stream=sys.stderr)
    config = _config(options)
    if not config.interpreted:
        # Here, where a signal ends it at once; the loop would hear of one afterwards.
        Node(config.settings()).prepare()
    new_loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        new_loop = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_take_part(config, json_lines=options.json))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say(f"interrupted; member {config.member} has left the group")
        return Exit.INTERRUPTED
    return Exit.DONE


def _config(options: argparse.Namespace) -> Config:
    given = {
        "protocol": options.protocol,
        "parameters": _assignments(options.set) or None,
        "trace": None if options.trace is None else str(options.trace),
        "metrics": options.metrics,
        "insecure": options.insecure or None,
        "addresses": tuple(options.address) or None,
        "security": None if options.keys is None else _keys_in(options.keys, options.member),
    }
    more = {name: value for name, value in given.items() if value is not None}
    if options.group is not None:
        return from_toml(options.group, member=options.member, **more)
    if not options.address:
        raise UserError("name the group with --group FILE, or --address once for each member")
    return Config(**{"member": options.member, **more})


def _keys_in(directory: Path, member: int) -> Security:
    return Security(
        authority=str(directory / "authority.pem"),
        certificate=str(directory / f"member-{member}.pem"),
        key=str(directory / f"member-{member}.key"),
    )


def _assignments(texts: list[str]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for name, equals, _ in pairs:
        if not name or not equals:
            raise UserError(f"--set takes NAME=VALUE, not {name!r}")
    return {name: value for name, _, value in pairs}


async def _take_part(config: Config, *, json_lines: bool) -> None:
    """Until the input has ended here and at all others; a signal cancels it, as Ctrl-C does."""
    this = asyncio.current_task()
    assert this is not None
    with contextlib.suppress(NotImplementedError):  # Windows
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, this.cancel)
    group = Group.open(config)
    telling = asyncio.create_task(_name_missing(group))
    try:
        async with group:
            telling.cancel()
            say(f"member {config.member} is ready")
            tasks = [
                asyncio.create_task(_broadcast_lines(group)),
                asyncio.create_task(_print(group, json_lines=json_lines)),
            ]
            try:
                await asyncio.gather(*tasks)
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        telling.cancel()


async def _name_missing(group: Group) -> None:
    """Say who has not come, when that changes."""
    told: list[int] = []
    while True:
        await asyncio.sleep(TELL_EVERY_S)
        missing = sorted(group.missing_links())
        if missing and missing != told:
            names = [f"{who} at {group.config.addresses[who]}" for who in missing[:NAMED_MAX]]
            more = len(missing) - len(names)
            rest = f" and {more} more" if more else ""
            say(f"waiting for member {', '.join(names)}{rest}; Ctrl-C ends it")
            told = missing


async def _broadcast_lines(group: Group) -> None:
    async for line in _lines(group.config.payload_max_bytes):
        await group.broadcast(line)
    await group.finish()


async def _lines(size_bytes_max: int) -> AsyncIterator[bytes]:
    """Lines of the standard input, read as they are taken: without credit they stay in the pipe.

    A thread reads them, which is all that terminals, pipes and files have in common. It is left
    behind in the end, and holds no lock then: that of ``sys.stdin`` would abort the interpreter.
    """
    loop = asyncio.get_running_loop()
    parts: asyncio.Queue[bytes] = asyncio.Queue()
    turn = threading.Semaphore(1)
    descriptor = sys.stdin.fileno()

    def read() -> None:
        with contextlib.suppress(RuntimeError):  # the loop has ended
            while data := _read(descriptor):
                turn.acquire()
                loop.call_soon_threadsafe(parts.put_nowait, data)
            loop.call_soon_threadsafe(parts.put_nowait, b"")

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


def _read(descriptor: int) -> bytes:
    """What there is of the input, or nothing at its end."""
    try:
        return os.read(descriptor, READ_BYTES)
    except OSError as error:
        say(f"cannot read standard input any more: {error.strerror}")
        return b""


async def _print(group: Group, *, json_lines: bool) -> None:
    async for batch in group.batches():
        shown = [_json(message) if json_lines else _text(message) for message in batch]
        show("\n".join(shown))


def _text(message: Message) -> str:
    text = message.payload.decode(errors="replace")
    # Others choose the bytes; a terminal obeys some of them.
    return f"{message.sender}: {printable(text) if sys.stdout.isatty() else text}"


def _json(message: Message) -> str:
    payload = message.payload.decode(errors="replace")
    return json.dumps({"sender": message.sender, "sequence": message.sequence, "payload": payload})


def cluster(options: argparse.Namespace) -> int:
    """Run a cluster and print what came of it."""
    found = clusters.run(
        clusters.Cluster(
            members=options.members,
            protocol=options.protocol,
            parameters=_assignments(options.set),
            seconds=options.seconds,
            rate=options.rate,
            payload_bytes=options.payload,
            window=options.window,
            faults=options.faults,
            evict_after_s=options.evict_after,
            secure=options.secure,
        ),
        directory=options.trace,
    )
    show(json.dumps(found) if options.json else _to_text(found))
    return Exit.of(found["verdict"])


def _to_text(found: dict[str, Any]) -> str:
    lines = [
        f"{found['verdict']}: {found['protocol']}, {found['members']} processes, "
        f"{found['broadcasts']:,} broadcasts, {found['deliveries']:,} deliveries",
        f"throughput  {found['deliveries_per_s']:,.0f} deliveries/s, "
        f"{found['deliveries_per_core_s']:,.0f} per core-second",
        f"latency     {_latency(found, 'ms')}",
        f"pending     at most {found['pending_max']:,} at a member "
        f"(bound {found['pending_bound']:,})",
        f"audit       {found['violations']:,} out of order, {found['lost']:,} lost, "
        f"{found['duplicates']:,} twice, {found['phantom']:,} from nowhere",
    ]
    if found["disturbed_s"]:
        lines[3:3] = [
            f"  while nobody was missing: {_latency(found, 'undisturbed_ms')}; in "
            f"{found['disturbed_s']:.1f} s somebody was, until it came back or was evicted"
        ]
    for fault in found["faults"]:
        who = ", ".join(map(str, fault["members"]))
        for_s = f" for {fault['for_s']:.2f} s" if fault["for_s"] else ""
        lines.append(f"fault       {fault['at_s']:.2f} s: {fault['kind']} {who}{for_s}")
    if found["faults"]:
        ended = " ".join(f"{who}:{how}" for who, how in found["ended"].items())
        lines.append(f"members     {ended}")
    for who in found["hung"]:
        lines.append(f"  member {who} did not end")
    for who in found["unexpected"]:
        lines.append(f"  member {who} ended unexpectedly: {found['ended'][str(who)]}")
    lines += [f"  - {sentence}" for sentence in found["witnesses"]]
    return "\n".join(lines)


def _latency(found: dict[str, Any], kind: str) -> str:
    if found[f"p50_{kind}"] is None:
        return "not known: no message was measured"
    return f"p50 {found[f'p50_{kind}']:.2f} ms, p99 {found[f'p99_{kind}']:.2f} ms"


def keys(options: argparse.Namespace) -> int:
    """Make keys for a group."""
    if not 1 <= options.members <= 1024:
        raise UserError(f"a group has 1 to 1024 members, not {options.members}")
    if options.days < 1:
        raise UserError(f"keys are good for a day or more, not {options.days}")
    existing = [path for path in key_files(options.directory, options.members) if path.exists()]
    if existing and not options.force:
        raise UserError(
            f"{existing[0]} is there already: name another directory, or replace it with --force"
        )
    make_keys(options.directory, group=options.name, members=options.members, days=options.days)
    show(f"authority and keys of {options.members} members in {options.directory}")
    return Exit.DONE

"""What ``precedes node``, ``precedes cluster`` and ``precedes keys`` do."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from precedes.console import say, show
from precedes.live import cluster as clusters
from precedes.live.config import Config, Security, from_toml
from precedes.live.group import Group
from precedes.live.output import Message
from precedes.live.security import make_keys
from precedes.model import Exit, UserError


def node(options: argparse.Namespace) -> int:
    """Broadcast lines, print what is delivered."""
    level = logging.INFO if options.verbose else logging.WARNING
    logging.basicConfig(level=level, format="precedes: %(message)s", stream=sys.stderr)
    config = _config(options)
    new_loop = None
    with contextlib.suppress(ImportError):
        import uvloop

        new_loop = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(_take_part(config, json_lines=options.json))
    return 0


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
    """Until the input has ended here and at all others, or somebody interrupts."""
    loop = asyncio.get_running_loop()
    stopped = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    async with Group.open(config) as group:
        say(f"member {config.member} is ready")
        lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        turn = threading.Semaphore(1)
        threading.Thread(target=_read, args=(loop, lines, turn), daemon=True).start()
        tasks = [
            asyncio.create_task(_say(group, lines, turn)),
            asyncio.create_task(_print(group, json_lines=json_lines)),
        ]
        stop = asyncio.create_task(stopped.wait())
        try:
            done, _ = await asyncio.wait(
                [tasks[1], stop, asyncio.create_task(_first_error(tasks[0]))],
                return_when=asyncio.FIRST_COMPLETED,
            )
            for task in done:
                task.result()
        finally:
            for task in (*tasks, stop):
                task.cancel()
            await asyncio.gather(*tasks, stop, return_exceptions=True)


async def _first_error(task: asyncio.Task[None]) -> None:
    """Ends when the task fails, never when it succeeds."""
    await task
    await asyncio.Event().wait()


def _read(
    loop: asyncio.AbstractEventLoop, lines: asyncio.Queue[bytes | None], turn: threading.Semaphore
) -> None:
    """Lines of the standard input, one at a time: without credit they stay in the pipe."""
    with contextlib.suppress(RuntimeError, ValueError, OSError):
        for line in sys.stdin.buffer:
            turn.acquire()
            loop.call_soon_threadsafe(lines.put_nowait, line.rstrip(b"\r\n"))
        loop.call_soon_threadsafe(lines.put_nowait, None)


async def _say(group: Group, lines: asyncio.Queue[bytes | None], turn: threading.Semaphore) -> None:
    while (line := await lines.get()) is not None:
        await group.broadcast(line)
        turn.release()
    await group.finish()


async def _print(group: Group, *, json_lines: bool) -> None:
    async for batch in group.batches():
        shown = [_json(message) if json_lines else _text(message) for message in batch]
        show("\n".join(shown))


def _text(message: Message) -> str:
    return f"{message.sender}: {message.payload.decode(errors='replace')}"


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
        f"latency     p50 {found['p50_ms']:.2f} ms, p99 {found['p99_ms']:.2f} ms",
        f"pending     at most {found['pending_max']:,} at a member "
        f"(bound {found['pending_bound']:,})",
        f"audit       {found['violations']:,} out of order, {found['lost']:,} lost, "
        f"{found['duplicates']:,} twice, {found['phantom']:,} from nowhere",
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


def keys(options: argparse.Namespace) -> int:
    """Make keys for a group."""
    if not 1 <= options.members <= 1024:
        raise UserError(f"a group has 1 to 1024 members, not {options.members}")
    make_keys(options.directory, group=options.name, members=options.members, days=options.days)
    show(f"authority and keys of {options.members} members in {options.directory}")
    return 0

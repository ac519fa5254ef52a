"""A user's program that touches most of what is public: typed strictly, and run from a wheel.

    python application.py FOLDER LOG

It knows the installed package alone; what it prints is for its test to compare.
"""

import asyncio
import contextlib
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]

from precedes import Fault, PrecedesError, Result, Scenario, UserError, from_arrow, load, simulate
from precedes.audit import HELD, VIOLATED, Report, Witness, audit, to_json, to_text
from precedes.live import Batch, Config, Event, Group, GroupClosed, Message, WouldBlock
from precedes.testing import Observed, check_agreement, observe, random_scenario
from precedes.trace import Dialect, History, event_batches, join, read_metadata, read_trace


def judged(folder: Path) -> list[str]:
    """Simulate a right and a wrong protocol, and audit what they wrote."""
    verdicts: list[str] = []
    for protocol in ("vector", "unordered"):
        scenario = Scenario(
            protocol=protocol,
            nodes=6,
            messages=60,
            rate=1000.0,
            faults=(Fault("pause", node=1, at_s=0.01, for_s=0.02),),
        )
        path = folder / f"{protocol}.parquet"
        result: Result = simulate(scenario.replace(seed=2), trace=path)
        lost: int | None = result.lost
        assert result.deliveries + (lost or 0) == 60 * 5
        reports: list[Report] = audit(path, witnesses=1)
        witnesses: Sequence[Witness] = reports[0].witnesses
        verdicts.append(reports[0].verdict)
        assert bool(witnesses) == (reports[0].verdict == VIOLATED)
        assert to_text(reports).startswith(reports[0].verdict)
        assert to_json(reports)["verdict"] == reports[0].verdict
        (history,) = read_trace(path)
        report: Report = audit(history)
        assert report.verdict == verdicts[-1]
        assert read_metadata(path)["protocol"] == protocol
    return verdicts


def imported() -> int:
    """Read a log of its own from memory."""
    rows = {"node": ["a", "b"], "kind": ["broadcast", "deliver"], "message": ["m", "m"]}
    histories: list[History] = from_arrow(pa.table(rows))
    return len(histories)


def streamed(log: Path) -> int:
    """Count the events of a log of any format, in batches; ask for one that there is not."""
    dialect = Dialect()
    count = sum(int(batch.num_rows) for batch in event_batches(log, dialect=dialect))
    assert all(isinstance(history, History) for history in load(log))
    try:
        load(log, "jsn")
    except UserError as error:
        mistake: PrecedesError = error
        assert "jsonl" in str(mistake)
    return count


def watched() -> int:
    """The events of a run, from the conformance suite's own collector."""
    seen: Observed = observe(random_scenario("vector", 3))
    check_agreement(seen)
    return seen.result.deliveries


def addresses(count: int) -> tuple[str, ...]:
    """Addresses on this machine that nobody uses now."""
    with contextlib.ExitStack() as stack:
        socks = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
        for sock in socks:
            stack.enter_context(sock)
        return tuple(f"127.0.0.1:{sock.getsockname()[1]}" for sock in socks)


async def member(config: Config) -> list[bytes]:
    """Broadcast a little in each way, and take what comes in batches."""
    events: list[Event] = []
    got: list[bytes] = []
    async with Group.open(config) as group:
        watcher = asyncio.create_task(follow(group, events))
        name: tuple[int, int] = await group.broadcast(b"one of %d" % group.member)
        with contextlib.suppress(WouldBlock):
            group.broadcast_nowait(bytearray(b"two of %d" % group.member))
        await group.finish()
        batch: Batch
        async for batch in group.batches():
            first: Message = next(iter(batch))
            assert bytes(first.payload) == bytes(batch.payloads[0])
            got += [bytes(message.payload) for message in batch]
        counts: dict[str, int] = group.counts()
        assert counts
        assert name[0] == group.member
    watcher.cancel()
    with contextlib.suppress(GroupClosed):
        group.broadcast_nowait(b"too late")
    return sorted(got)


async def follow(group: Group, events: list[Event]) -> None:
    """Note what happens to the group."""
    async for event in group.events():
        events.append(event)


async def meet(folder: Path) -> list[list[bytes]]:
    """A live group of three in one process, whose logs the audit then judges."""
    places = addresses(3)
    traces = str(folder / "members")
    configs = [Config(member=number, addresses=places, trace=traces) for number in range(3)]
    return list(await asyncio.gather(*map(member, configs)))


def main(folder: Path, log: Path) -> None:
    """Everything once."""
    right, wrong = judged(folder)
    assert (right, wrong) == (HELD, VIOLATED)
    got = asyncio.run(meet(folder))
    join(folder / "members", folder / "live.parquet")
    (report,) = audit(folder / "live.parquet")
    print(right, wrong, imported(), streamed(log), watched() > 0, len(got[0]), report.verdict)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))

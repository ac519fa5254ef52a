"""Peers of a live group, for the benchmark: a raw TCP mesh without order, and NATS.

Each runs as many processes as the group and counts what they deliver, with the CPU time of the
processes themselves. Python processes are forked, use uvloop if it is there, and do not preempt
each other when they wake, as ours do.
"""

import asyncio
import contextlib
import json
import os
import random
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import time
import traceback
from pathlib import Path

BATCH = 64  # messages that the raw mesh writes in one turn of its loop
STAMP = 8


def new_loop():
    """uvloop's, or the standard library's."""
    with contextlib.suppress(ImportError):
        import uvloop

        return uvloop.new_event_loop()
    return asyncio.new_event_loop()


def run_processes(count, body):
    """Fork ``count`` processes that run ``body(i)``; return their results, through files."""
    with tempfile.TemporaryDirectory() as directory:
        processes = []
        for i in range(count):
            process = os.fork()
            if process == 0:
                try:
                    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
                    found = asyncio.Runner(loop_factory=new_loop).run(body(i))
                    (Path(directory) / f"{i}.json").write_text(json.dumps(found))
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(0)
            processes.append(process)
        for process in processes:
            os.waitpid(process, 0)
        found = []
        for i in range(count):
            found.append(json.loads((Path(directory) / f"{i}.json").read_text()))
        return found


def sum_up(found):
    """Rates and latencies over all processes."""
    deliveries = sum(member["deliveries"] for member in found)
    latency = sorted(us for member in found for us in member["latency_us"])
    cpu_s = sum(member["cpu_s"] for member in found)
    active_s = max(member["active_s"] for member in found)
    return {
        "deliveries": deliveries,
        "cpu_s": cpu_s,
        "deliveries_per_core_s": deliveries / cpu_s,
        "deliveries_per_s": deliveries / active_s,
        "p50_ms": latency[len(latency) // 2] / 1000 if latency else None,
        "p99_ms": latency[int(0.99 * len(latency))] / 1000 if latency else None,
    }


class RawPeer(asyncio.Protocol):
    """Cuts the stream into payloads and hands them out in lists."""

    def __init__(self, member):
        self.member = member
        self.rest = b""
        self.paused = False

    def connection_made(self, transport):
        self.transport = transport
        self.member.peers.append(self)
        if len(self.member.peers) == self.member.others:
            self.member.complete.set()

    def pause_writing(self):
        self.paused = True

    def resume_writing(self):
        self.paused = False
        self.member.writable.set()

    def connection_lost(self, exception):
        """The first to end closes: the others continue to write, to those that are left."""
        self.member.peers.remove(self)
        self.member.writable.set()

    def data_received(self, data):
        if self.rest:
            data = self.rest + data
        at, end, found = 0, len(data), []
        while end - at >= 4:
            size = int.from_bytes(data[at : at + 4], "little")
            if end - at - 4 < size:
                break
            found.append(data[at + 4 : at + 4 + size])
            at += 4 + size
        self.rest = data[at:]
        self.member.deliver(found)


class RawMember:
    """A member of a mesh that writes once a turn, keeps no order and waits for no window."""

    def __init__(self, others):
        self.others = others
        self.complete = asyncio.Event()
        self.peers = []
        self.writable = asyncio.Event()
        self.deliveries = 0
        self.latency_us = []

    def deliver(self, batch):
        self.deliveries += len(batch)
        if batch:
            sent_ns = struct.unpack_from("<q", batch[0])[0]
            self.latency_us.append((time.monotonic_ns() - sent_ns) / 1000)


def raw_mesh(members, seconds, payload_bytes):
    """Saturated."""
    listeners = []
    for _ in range(members):
        sock = socket.socket()
        sock.bind(("127.0.0.1", 0))
        sock.listen(64)
        listeners.append(sock)

    async def body(i):
        member, loop = RawMember(members - 1), asyncio.get_running_loop()
        server = await loop.create_server(lambda: RawPeer(member), sock=listeners[i])
        for j in range(i):
            await loop.create_connection(lambda: RawPeer(member), *listeners[j].getsockname())
        await member.complete.wait()
        cpu_s, began_s = time.process_time(), time.monotonic()
        filler = bytes(payload_bytes - STAMP)
        warm_s = began_s + min(1.0, seconds / 4)
        until_s = began_s + seconds
        while time.monotonic() < until_s:
            if warm_s is not None and time.monotonic() > warm_s:
                cpu_s, began_s, warm_s = time.process_time(), time.monotonic(), None
                member.deliveries = 0
            stamp = struct.pack("<q", time.monotonic_ns())
            parts = [payload_bytes.to_bytes(4, "little") + stamp + filler for _ in range(BATCH)]
            data = b"".join(parts)
            for peer in member.peers:
                if not peer.transport.is_closing():
                    peer.transport.write(data)
            while any(peer.paused for peer in member.peers):
                member.writable.clear()
                await member.writable.wait()
            await asyncio.sleep(0)
        await asyncio.sleep(0.3)
        found = {
            "deliveries": member.deliveries,
            "cpu_s": time.process_time() - cpu_s,
            "active_s": time.monotonic() - began_s,
            "latency_us": member.latency_us[-5000:],
        }
        server.close()
        await asyncio.sleep(0.3)
        return found

    return sum_up(run_processes(members, body))


@contextlib.contextmanager
def nats_server():
    """A server on a free port of this machine, or None if there is no nats-server."""
    path = shutil.which("nats-server") or shutil.which("nats-server", path="/usr/sbin")
    if path is None:
        yield None
        return
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    command = [path, "-a", "127.0.0.1", "-p", str(port)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.1):
                break
            time.sleep(0.02)
        yield process.pid, port
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait()


def nats(members, seconds, payload_bytes, rate=None):
    """All publish to one subject and receive from all others; saturated, or at a rate."""
    import processes

    with nats_server() as server:
        if server is None:
            return None
        pid, port = server

        async def body(i):
            import nats

            deliveries, latency_us = 0, []
            connection = await nats.connect(f"nats://127.0.0.1:{port}", no_echo=True)

            async def handle(message):
                nonlocal deliveries
                deliveries += 1
                if rate is not None or deliveries % 64 == 0:
                    sent_ns = struct.unpack_from("<q", message.data)[0]
                    latency_us.append((time.monotonic_ns() - sent_ns) / 1000)

            limits = {"pending_msgs_limit": 1 << 22, "pending_bytes_limit": 1 << 30}
            await connection.subscribe("bench", cb=handle, **limits)
            await connection.flush()
            await asyncio.sleep(0.5)
            cpu_s, began_s = time.process_time(), time.monotonic()
            filler, rng, due_s = bytes(payload_bytes - STAMP), random.Random(i), time.monotonic()
            sent = 0
            while time.monotonic() < began_s + seconds:
                if rate is not None:
                    due_s += rng.expovariate(rate / members)
                    if (wait_s := due_s - time.monotonic()) > 0:
                        await asyncio.sleep(wait_s)
                await connection.publish("bench", struct.pack("<q", time.monotonic_ns()) + filler)
                sent += 1
                if rate is None and sent % 128 == 0:
                    await connection.flush()
            await connection.flush()
            await asyncio.sleep(1.0)
            found = {
                "deliveries": deliveries,
                "cpu_s": time.process_time() - cpu_s,
                "active_s": time.monotonic() - began_s,
                "latency_us": latency_us,
                "sent": sent,
            }
            await connection.close()
            return found

        before_s = processes.cpu_s_of_tree(pid)
        found = run_processes(members, body)
        server_s = processes.cpu_s_of_tree(pid) - before_s
        result = sum_up(found)
        result["server_cpu_s"] = server_s
        total_s = result["cpu_s"] + server_s
        result["deliveries_per_core_s_with_server"] = result["deliveries"] / total_s
        result["lost"] = sum(m["sent"] for m in found) * (members - 1) - result["deliveries"]
        return result

"""Metrics that Prometheus can read, and a health that says what is wrong."""

import asyncio
import contextlib
import re
import shutil
import subprocess
import sys

import pytest
from prometheus_client import CollectorRegistry, Gauge
from prometheus_client.parser import text_string_to_metric_families

from precedes.errors import UserError
from precedes.live import Config, Excluded, Group
from precedes.live.prometheus import METRICS
from tests.support.groups import (
    configs,
    end,
    enter_all,
    group_of,
    leave,
    leave_all,
    listeners,
    open_all,
    run,
    take,
    until,
)
from tests.support.places import ROOT

PAGE = ROOT / "docs" / "live.md"
SERVED = {"metrics": "127.0.0.1:0"}


async def ask(group, path):
    """The status and the body of an answer."""
    reader, writer = await asyncio.open_connection(*group.metrics_address)
    writer.write(f"GET {path} HTTP/1.1\r\n\r\n".encode())
    head, body = (await reader.read()).decode().split("\r\n\r\n", 1)
    await end(writer)
    return int(head.split()[1]), body


async def scrape(group):
    """All samples by name and labels."""
    status, body = await ask(group, "/metrics")
    assert status == 200
    return samples_in(body), body


def samples_in(text):
    return {
        (sample.name, *(sample.labels[label] for label in sample.labels)): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_metrics_as_prometheus_reads_them():
    async def test():
        async with group_of(2, **SERVED) as (one, two):
            await two.broadcast(b"")
            await take(one, 1)
            found, text = await scrape(one)
            assert found["precedes_delivered_total", "group", "0"] == 1
            assert found["precedes_members", "group", "0"] == 2
            assert found["precedes_ready", "group", "0"] == 1
            assert found["precedes_peer_unacknowledged_bytes", "group", "0", "1"] >= 0
            # Nothing was refused, and there is no certificate.
            absent = {"precedes_refused_total", "precedes_certificate_expiry_seconds"}
            assert {name for name, *_ in found} | absent == {m.full_name for m in METRICS}
            assert (await ask(one, "/secrets"))[0] == 404
            return text

    text = run(test())
    if promtool := shutil.which("promtool"):
        checked = subprocess.run(
            [promtool, "check", "metrics"], input=text, text=True, capture_output=True, timeout=30
        )
        assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    for metric in METRICS:
        assert f"# HELP {metric.full_name} " in text


async def test_counters_keep_their_digits():
    """In steps of a hundred a rate is all peaks and holes."""
    async with group_of(2, **SERVED) as (one, _):
        one.metrics.delivered = 12_345_678
        one.metrics.refusals['a "quoted" \\ reason\nin two lines'] += 1
        found, _ = await scrape(one)
        assert found["precedes_delivered_total", "group", "0"] == 12_345_678
        assert (
            found["precedes_refused_total", "group", "0", 'a "quoted" \\ reason\nin two lines'] == 1
        )


async def test_a_registry_of_the_application_has_all_groups_that_are_open():
    registry = CollectorRegistry()
    Gauge("of_the_application", "Its own.", registry=registry).set(7)
    socks = listeners(2)
    served = [{}, SERVED]
    groups = open_all(socks, registry=registry, each=lambda member: served[member])
    await enter_all(groups)
    found, _ = await scrape(groups[1])
    assert found[("of_the_application",)] == 7
    assert [found["precedes_members", "group", str(member)] for member in (0, 1)] == [2, 2]
    await leave_all(groups)
    assert registry.get_sample_value("of_the_application") == 7
    assert [family.name for family in registry.collect()] == ["of_the_application"]
    with pytest.raises(UserError, match="registry"):
        Group.open(Config(member=0, addresses=("127.0.0.1:1", "127.0.0.1:2")), registry="mine")


def test_metrics_without_the_extra_say_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    addresses = ("127.0.0.1:1", "127.0.0.1:2")
    Config(member=0, addresses=addresses)
    with pytest.raises(UserError, match=r"pip install 'precedes\[live\]'"):
        Config(member=0, addresses=addresses, **SERVED)


async def test_an_address_for_metrics_that_is_taken_is_named():
    (taken,) = listeners(1)
    address = f"127.0.0.1:{taken.getsockname()[1]}"
    with taken, pytest.raises(UserError, match=f"cannot serve metrics at {address}"):
        async with group_of(2, without=(1,), metrics=address):
            pass


def test_the_page_names_every_metric():
    named = set(re.findall(r"`(precedes_[a-z_]+)", PAGE.read_text()))
    assert named == {metric.full_name for metric in METRICS}


async def test_health_and_an_event_say_that_a_link_is_missing_also_to_member_0(monkeypatch):
    """Member 0 ends, and is not suspected yet."""
    monkeypatch.setattr("precedes.live.driver.REFUSED_S", 1000.0)
    given = {**SERVED, "evict_after_s": 60.0, "gap_after_s": 0.2}
    async with group_of(3, **given) as (one, two, three):
        assert await ask(three, "/health") == (200, "ready\n")
        events = three.events()
        one._driver.links.part = lambda: None
        await leave(one)
        await until(lambda: two.missing_links() and three.missing_links())
        assert await ask(three, "/health") == (200, "degraded\nno connection to member 0\n")
        found, _ = await scrape(three)
        assert found["precedes_links_missing", "group", "2"] == 1
        assert found["precedes_degraded", "group", "2"] == 1
        event = await anext(events)
        assert (event.kind, event.member) == ("disconnected", 0)
        await asyncio.gather(leave(two), leave(three))


async def test_health_says_who_was_lost_and_that_all_is_lost():
    async with group_of(3, **SERVED, evict_after_s=0.5, test_every_s=0.1) as groups:
        one, two, three = groups
        await leave(three)
        await until(lambda: one.view == [0, 1])
        assert await ask(one, "/health") == (200, "degraded\nmember 2 is out of the view\n")
        one._driver._stop(Excluded("the others go on"))
        assert await ask(one, "/health") == (503, "live\nthe others go on\n")
        found, _ = await scrape(one)
        assert found["precedes_ready", "group", "0"] == 0
        with contextlib.suppress(Excluded):
            await two.finish()


async def test_a_member_that_waits_for_others_is_not_ready():
    socks = listeners(2)
    config = configs(socks, **SERVED)[0]
    group = Group.open(config, listener=socks[0])
    entering = asyncio.create_task(group.__aenter__())
    await until(lambda: group.metrics_address is not None)
    assert await ask(group, "/health") == (503, "live\nit is starting, or has ended\n")
    entering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await entering
    for sock in socks:
        sock.close()


async def test_idle_connections_do_not_keep_others_out():
    """There are at most 64 connections at once: the oldest one makes room."""
    async with group_of(2, **SERVED) as (one, _):
        idle = [await asyncio.open_connection(*one.metrics_address) for _ in range(70)]
        assert await ask(one, "/health") == (200, "ready\n")
        for reader, writer in idle[:7]:
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
            await end(writer)
        assert not any(reader.at_eof() for reader, _ in idle[7:])
        for _, writer in idle[7:]:
            await end(writer)


@pytest.mark.parametrize(
    ("request_line", "status"),
    [
        ("GET /health?verbose=1 HTTP/1.1", 200),
        ("HEAD /health HTTP/1.1", 200),
        ("HEAD /metrics?name[]=up HTTP/1.0", 200),
        ("HEAD /secrets HTTP/1.1", 404),
        ("GET /healthy HTTP/1.1", 404),
        ("POST /health HTTP/1.1", 405),
        ("GET", 404),
        (" ", 405),
    ],
)
async def test_requests_as_probes_and_proxies_send_them(request_line, status):
    async with group_of(2, **SERVED) as (one, _):
        reader, writer = await asyncio.open_connection(*one.metrics_address)
        writer.write(f"{request_line}\r\n\r\n".encode())
        head, body = (await reader.read()).decode().split("\r\n\r\n", 1)
        await end(writer)
        assert int(head.split()[1]) == status
        length = int(re.search(r"Content-Length: (\d+)", head)[1])
        assert length > 0
        assert len(body) == (0 if request_line.startswith("HEAD") else length)

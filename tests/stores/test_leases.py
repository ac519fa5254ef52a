"""Leases: one process in a folder, on this machine and in a store."""

import signal
import subprocess
import sys
import threading
import time

import pytest

from precedes.errors import UserError
from precedes.stores import Address, StoreError, lease, leases
from tests.support.processes import await_true, python

HOLD = """
import sys
from precedes.stores import Address, lease
with lease(Address.of(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""

FIRST = f"{'0' * 32}-7-0-there"
LAST = f"{'f' * 32}-7-0-there"


@pytest.fixture(params=["disk", "s3"])
def folder(request, tmp_path):
    """A folder to have for oneself."""
    if request.param == "disk":
        return Address.of(tmp_path)
    return Address.of(f"{request.getfixturevalue('bucket')}/folder")


def claims(folder):
    return (folder / ".lease").names()


def test_a_second_process_is_refused(folder):
    with lease(folder) as first:
        done = python("-c", HOLD, folder, input="")
        assert "UserError" in done.stderr
        assert f"uses {folder}: wait for it, or choose another" in done.stderr
        first.check()
    with lease(folder), pytest.raises(UserError, match="uses "), lease(folder):
        pass
    with lease(folder):
        pass


@pytest.mark.parametrize("is_here", [True, False])
def test_a_killed_process_gives_its_folder_back(folder, monkeypatch, is_here):
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(folder)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match="uses "), lease(folder):
            pass
        holder.send_signal(signal.SIGKILL)
    if not (folder.is_local or is_here):
        monkeypatch.setattr(leases, "_machine", lambda: "0")
        with pytest.raises(UserError, match="uses "), lease(folder):
            pass
        time.sleep(2.1)  # a store's times are whole seconds
        monkeypatch.setattr(leases, "EXPIRES_S", 1.0)
    with lease(folder):
        pass
    assert folder.is_local or claims(folder) == []


def test_of_many_at_once_exactly_one_has_it(bucket):
    for number in range(3):
        folder = Address.of(f"{bucket}/{number}")
        gate, over = threading.Barrier(6), threading.Event()
        held, refused = [], []

        def contend(folder=folder, gate=gate, over=over, held=held, refused=refused):
            gate.wait()
            try:
                with lease(folder) as mine:
                    held.append(mine)
                    over.wait(60)
            except UserError as error:
                refused.append(str(error))

        threads = [threading.Thread(target=contend) for _ in range(6)]
        for thread in threads:
            thread.start()
        await_true(lambda held=held, refused=refused: len(held) + len(refused) == 6)
        over.set()
        for thread in threads:
            thread.join()
        assert (len(held), len(refused)) == (1, 5), refused
        assert claims(folder) == []


def test_the_first_by_name_waits_for_others_to_step_back(bucket):
    folder = Address.of(f"{bucket}/x")
    (folder / ".lease" / LAST).put(b"")
    step_back = threading.Timer(1.0, (folder / ".lease" / LAST).remove)
    step_back.start()
    begin_s = time.monotonic()
    with lease(folder):
        assert time.monotonic() - begin_s > 0.5
    step_back.join()


@pytest.mark.parametrize(("name", "wait_s"), [(FIRST, 0.0), (LAST, 1.0)])
def test_others_step_back(bucket, monkeypatch, name, wait_s):
    """At once, or after a while if the clock of whoever has the folder is ahead."""
    monkeypatch.setattr(leases, "STEP_BACK_S", wait_s)
    folder = Address.of(f"{bucket}/x")
    (folder / ".lease" / name).put(b"")
    begin_s = time.monotonic()
    with pytest.raises(UserError, match="process 7 of there uses"), lease(folder):
        pass
    assert time.monotonic() - begin_s >= wait_s
    assert claims(folder) == [name]


def test_a_claim_is_renewed(bucket, monkeypatch):
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    folder = Address.of(f"{bucket}/x")
    with lease(folder) as held:
        entry = (folder / ".lease").entries()[0]
        await_true(lambda: (folder / ".lease").entries()[0].mtime_ns != entry.mtime_ns)
        held.check()


def test_a_claim_that_was_taken_away_is_lost(bucket, monkeypatch):
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    folder = Address.of(f"{bucket}/x")
    with lease(folder) as held:
        held.check()
        held.claim.remove()
        await_true(lambda: held.lost)
        with pytest.raises(StoreError, match="the same command resumes"):
            held.check()
    assert claims(folder) == []


def test_a_store_out_of_reach_is_lost(bucket, monkeypatch):
    monkeypatch.setattr(leases, "BEAT_S", 0.05)
    monkeypatch.setattr(leases, "EXPIRES_S", 1.0)
    folder = Address.of(f"{bucket}/x")
    with lease(folder) as held:
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        await_true(lambda: held.lost)

"""Ctrl-C while Java is asked something, and while tasks are at work."""

import logging
import os
import signal
import socket
from pathlib import Path

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty, PythonProxyPool

from precedes.errors import UserError
from precedes.pipeline import run_experiments
from precedes.pipeline.directory import hold
from precedes.pipeline.spark.session import open_session
from precedes.sim import Scenario
from precedes.sim.experiment import Experiment
from precedes.stores import Address
from tests.support.processes import await_true


def test_an_interrupt_within_a_call_of_java_is_not_logged(spark, caplog, monkeypatch):
    """py4j would print a traceback; without what a session adds to the root logger it does.

    The call goes to a socket that never answers: an interrupted one closes its connections, and
    those of the session are needed by other tests.
    """

    def interrupted():
        with socket.create_server(("127.0.0.1", 0)) as server:
            there = JavaParameters(port=server.getsockname()[1])
            known = GatewayProperty(auto_field=False, pool=PythonProxyPool())
            client = JavaClient(there, PythonParameters(), known)
            connection = client._get_connection()
            before = signal.signal(signal.SIGALRM, signal.default_int_handler)
            try:
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                with pytest.raises(KeyboardInterrupt):
                    client.send_command("a command")
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
                signal.signal(signal.SIGALRM, before)
                connection.close()

    with open_session(session=spark):
        interrupted()
        assert caplog.messages == []
        logging.error("somebody else's")
    assert caplog.messages == ["somebody else's"]
    monkeypatch.setattr(logging.getLogger(), "filters", [])
    interrupted()
    assert "KeyboardInterrupt while sending command." in caplog.messages


def is_at_work(process):
    """Return whether a process runs; one that has ended may still have an entry."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def test_an_interrupt_ends_the_tasks_in_a_session_of_ones_own(spark, tmp_path):
    """The run would take minutes; its directory is free at once."""
    long = Scenario(protocol="unordered", nodes=200, messages=2_000_000, oracle=False)
    begun = []

    def interrupt(_share):
        for note in (tmp_path / "started").iterdir():
            if text := note.read_text():
                begun.append(int(text))
                with pytest.raises(UserError, match="uses "), hold(Address.of(tmp_path)):
                    pass
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_experiments(
            [Experiment("long", (long,))], str(tmp_path), session=spark, progress=interrupt
        )
    assert begun
    assert begun[0] != os.getpid()
    with hold(Address.of(tmp_path)):
        await_true(lambda: not is_at_work(begun[0]))
        assert list((tmp_path / "records").iterdir()) == []
    assert spark.range(3).count() == 3

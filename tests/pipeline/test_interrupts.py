"""Ctrl-C while Java is asked something."""

import logging
import signal
import socket

import pytest
from py4j.clientserver import JavaClient, JavaParameters, PythonParameters
from py4j.java_gateway import GatewayProperty, PythonProxyPool

from precedes.pipeline.session import open_session


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

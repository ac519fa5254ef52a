"""Signals for processes that tests start."""

import signal


def enable_interrupts() -> None:
    """To call in a new process: a shell that starts the tests with ``&`` has it ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)

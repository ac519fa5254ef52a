"""Python processes whose standard streams are a terminal."""

import os
import pty
import subprocess
import sys

from tests.support.places import ROOT


def read(descriptor):
    """All that was written to a terminal, whose other end is closed."""
    parts = []
    while True:
        try:
            part = os.read(descriptor, 4096)
        except OSError:  # Linux: the other end is closed
            part = b""
        if not part:
            os.close(descriptor)
            return b"".join(parts).decode()
        parts.append(part)


def run(*arguments, terminal="stderr", stdin=None, **environment):
    """Output of a process in a pipe, and on a terminal: the stream named."""
    ours, theirs = pty.openpty()
    pipe = "stdout" if terminal == "stderr" else "stderr"
    with subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        text=True,
        stdin=stdin,
        cwd=ROOT,
        env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **environment},
        **{terminal: theirs, pipe: subprocess.PIPE},
    ) as process:
        os.close(theirs)
        shown = read(ours)
        piped = "".join(filter(None, process.communicate(timeout=300)))
    assert process.returncode in (0, 1), shown
    return piped, shown

"""The standard streams of a command: results on one, everything else on the other.

Standard output carries the result: if it cannot be written, the command has failed. Standard
error is best effort: text that cannot be written there is dropped, and changes no exit status.
The level decides how much is written there: errors always, ``say`` unless a command is quiet,
``note`` if it is verbose.
"""

from __future__ import annotations

import contextlib
import enum
import io
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NoReturn

from precedes.errors import Exit, InternalError, PrecedesError

STREAMS: Final = ("stdin", "stdout", "stderr")
REPORT: Final = "please report it as an issue of precedes, with what --debug adds to this"


class Level(enum.IntEnum):
    """Verbosity of standard error, apart from errors."""

    QUIET = 0
    USUAL = 1  # warnings, and progress on a terminal
    VERBOSE = 2  # also each step


_level = Level.USUAL


def set_level(level: Level) -> None:
    """Set the level of this process."""
    global _level
    _level = level


def is_quiet() -> bool:
    """Return whether only errors are written."""
    return _level == Level.QUIET


def is_verbose() -> bool:
    """Return whether steps are written: for notes that are expensive to make."""
    return _level == Level.VERBOSE


class OutputFailed(PrecedesError):
    """Standard output cannot be written: its disk is full, or its reader has closed it."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror or error}")
        self.is_unread = isinstance(error, BrokenPipeError)
        if self.is_unread:
            self.exit_status = Exit.BROKEN_PIPE


def show(text: object, *, end: str = "\n") -> None:
    """Print a part of the result and flush it."""
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        raise OutputFailed(error) from None


def say(text: str) -> None:
    """Print a line about the command on standard error, unless it is quiet."""
    if not is_quiet():
        complain(text)


def note(text: str) -> None:
    """Print a line about a step on standard error, if the command is verbose."""
    if is_verbose():
        complain(text)


@contextlib.contextmanager
def phase(text: str) -> Iterator[None]:
    """Note that a phase begins, and how long it took."""
    note(text)
    began_s = time.monotonic()
    yield
    note(f"{text}: {time.monotonic() - began_s:.2f} s")


def complain(text: str) -> None:
    """Print an error on standard error, at every level."""
    write_error(f"precedes: {text}\n")


def write_error(text: str) -> None:
    """Write to standard error, if possible."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def tell(error: BaseException, *, debug: bool, spelt: Mapping[str, str] | None = None) -> int:
    """Report in a line the error that ended a command; return its exit status.

    ``spelt`` maps names of arguments to the command's options.
    """
    if debug:
        write_error("".join(traceback.format_exception(error)))
    if isinstance(error, KeyboardInterrupt):
        complain(str(error) or "interrupted; nothing was left half-written")
        return Exit.INTERRUPTED
    if isinstance(error, MemoryError):
        complain("out of memory: use fewer nodes or messages")
        return Exit.MISTAKE
    if isinstance(error, InternalError):
        text = one_line(str(error))
        complain(f"this is a defect of precedes or of the protocol: {text}; {REPORT}")
    elif isinstance(error, PrecedesError):
        if not (isinstance(error, OutputFailed) and error.is_unread):
            complain(_in_options(one_line(str(error)), spelt or {}))
    elif isinstance(error, OSError) and error.strerror and not isinstance(error, ConnectionError):
        # A full disk, an unreadable directory: unexpected, but not a defect.
        complain(f"{error.filename or 'input or output'}: {error.strerror}")
        return Exit.MISTAKE
    else:
        text = one_line(f"{type(error).__name__}: {error}")
        complain(f"this is a defect of precedes: {text:.300}; {REPORT}")
    return error.exit_status if isinstance(error, PrecedesError) else Exit.UNKNOWN


def _in_options(text: str, spelt: Mapping[str, str]) -> str:
    """The text of an error, with arguments (`like_this`) as the options of the command."""
    return re.sub(r"`(\w+)`", lambda match: spelt.get(match[1], match[0]), text)


def one_line(text: str) -> str:
    """Text without line breaks, which quoted text may contain."""
    return " ".join(text.split())


def run(main: Callable[[], int]) -> NoReturn:
    """Run this as a process: with usable streams, and an exit status at the end."""
    is_open = sys.stdout is not None
    _open_streams()
    if is_open:
        status = main()
    else:
        complain("standard output is closed: use '> /dev/null' to discard it")
        status = Exit.MISTAKE
    _close_streams()
    sys.exit(status)


def _open_streams() -> None:
    """Reserve the numbers of closed streams, and make all names printable.

    A closed stream reads as empty and discards writes.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is None and os.open(os.devnull, os.O_RDWR) == number:
            opened = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
            setattr(sys, name, opened)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # characters that the locale lacks


def _close_streams() -> None:
    """Close the streams, so that the interpreter does not retry a failed write."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

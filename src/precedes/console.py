"""The standard streams of a command: results on one, everything else on the other.

Standard output is what was asked for: if it cannot be written, the command has failed. Standard
error is a courtesy: what cannot be written there is dropped, and changes no exit status. How much
is written there is a level: errors always, ``say`` unless a command is to be quiet, ``note`` if it
is to be verbose.
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
    """How much is said on standard error beside errors."""

    QUIET = 0
    USUAL = 1  # what is doubtful, and progress on a terminal
    VERBOSE = 2  # also what is done


_level = Level.USUAL


def set_level(level: Level) -> None:
    """Say more or less from here on, in this process."""
    global _level
    _level = level


def is_quiet() -> bool:
    """Whether nothing but errors is to be said."""
    return _level == Level.QUIET


def is_verbose() -> bool:
    """Whether it is to be said what is done: for notes that cost something to make."""
    return _level == Level.VERBOSE


class OutputFailed(PrecedesError):
    """Standard output cannot be written: its disk is full, or nobody reads it any more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write to standard output: {error.strerror or error}")
        self.is_unread = isinstance(error, BrokenPipeError)
        if self.is_unread:
            self.exit_status = Exit.BROKEN_PIPE


def show(text: object, *, end: str = "\n") -> None:
    """Print a part of the result, at once."""
    try:
        print(text, end=end, flush=True)
    except OSError as error:
        raise OutputFailed(error) from None


def say(text: str) -> None:
    """Print a line about the command on standard error, unless it is to be quiet."""
    if not is_quiet():
        complain(text)


def note(text: str) -> None:
    """Print a line on what is done on standard error, if the command is to be verbose."""
    if is_verbose():
        complain(text)


@contextlib.contextmanager
def phase(text: str) -> Iterator[None]:
    """Note that something begins, and how long it took."""
    note(text)
    began_s = time.monotonic()
    yield
    note(f"{text}: {time.monotonic() - began_s:.2f} s")


def complain(text: str) -> None:
    """Print a line about what is wrong on standard error, whatever the level."""
    write_error(f"precedes: {text}\n")


def write_error(text: str) -> None:
    """Write to standard error, if that is possible."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            sys.stderr.write(text)
            sys.stderr.flush()


def tell(error: BaseException, *, debug: bool, spelt: Mapping[str, str] | None = None) -> int:
    """Say in a line what has ended a command; its exit status.

    ``spelt`` are the command's options by the names of the arguments that they stand for.
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
        # A full disk, a directory that may not be read: not foreseen, but no defect.
        complain(f"{error.filename or 'input or output'}: {error.strerror}")
        return Exit.MISTAKE
    else:
        text = one_line(f"{type(error).__name__}: {error}")
        complain(f"this is a defect of precedes: {text:.300}; {REPORT}")
    return error.exit_status if isinstance(error, PrecedesError) else Exit.UNKNOWN


def _in_options(text: str, spelt: Mapping[str, str]) -> str:
    """The text of an error, with arguments (`like_this`) as the options of the command."""
    return re.sub(r"`(\w+)`", lambda found: spelt.get(found[1], found[0]), text)


def one_line(text: str) -> str:
    """Text without the ends of lines that it may quote."""
    return " ".join(text.split())


def run(main: Callable[[], int]) -> NoReturn:
    """Be a process that does this: with streams that can be used, and an exit status in the end."""
    is_heard = sys.stdout is not None
    _open_streams()
    if is_heard:
        status = main()
    else:
        complain("standard output is closed: use '> /dev/null' if nobody is to read it")
        status = Exit.MISTAKE
    _close_streams()
    sys.exit(status)


def _open_streams() -> None:
    """Let no file get the number of a closed stream, and all names be printed.

    A stream that is closed reads as empty, and takes what is written.
    """
    for number, name in enumerate(STREAMS):
        if getattr(sys, name) is None and os.open(os.devnull, os.O_RDWR) == number:
            opened = open(number, "w" if number else "r", closefd=False)  # noqa: SIM115
            setattr(sys, name, opened)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # what the locale has no letter for


def _close_streams() -> None:
    """What a stream could not write must not be tried again by the interpreter."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())

"""What a station of ``mobile`` knows of a host: its record, and what outlives the record."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

from precedes.protocols.mobile_messages import NONE, Init, InitAck, Message, Name, Request

# Modes of a record.
OWN: Final = 0  # this station serves the host
WANTED: Final = 1  # it has asked for the record
FROZEN: Final = 2  # it has granted the record and waits to hand it over


@dataclass(slots=True)
class Record:
    """What a station knows of one host."""

    mode: int
    birth: int
    session: int
    number: int = 0  # next own number of the host that is expected
    pointer: int = 0  # lowest stamp not known to be delivered or skipped
    early: dict[int, Any] = field(default_factory=dict)  # own number -> data
    skip: set[int] = field(default_factory=set)  # stamps >= pointer delivered elsewhere
    catch_up: list[Message] = field(default_factory=list)  # what is left of it
    done: int = 0  # how many catch-up messages of this session are acknowledged
    total: int = 0  # how many there were
    sent: int = 0  # how many have been on the air
    copies: dict[int, int] = field(default_factory=dict)  # index of a catch-up message -> copies
    pending: Init | Request | None = None  # the newest request that came while not OWN
    undelivered: tuple[Name, ...] = ()
    mark: int = 0  # the station's next stamp when it froze, or was granted, the record
    answer: tuple[InitAck, ...] = ()  # sent again as it is until the host shows that it has it
    beyond: int = 0  # bit i: stamp pointer_beyond + 1 + i is there
    beyond_from: int = 0
    heard_ns: int = 0
    echo: int = NONE


@dataclass(slots=True)
class Memory:
    """What outlives a host's record."""

    birth: int = NONE  # newest life heard of
    session: int = NONE  # newest session that the record has reached, as far as known
    left: int = NONE  # newest life that has ended
    number: int = 0  # next own number when it ended

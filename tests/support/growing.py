"""Writers of logs that grow, in pieces that end anywhere."""

import random
import struct

from precedes.trace import member_log
from tests.support import cuts, executions

KINDS = {**cuts.KINDS, "view": 64}


def lines(execution, seed):
    """JSON lines of an execution, nodes interleaved at random: (node, line)."""
    rng = random.Random(seed)
    left = [executions.as_lines(execution, node) for node in range(len(execution.logs))]
    while any(left):
        node = rng.choice([node for node, rows in enumerate(left) if rows])
        yield node, left[node].pop(0) + "\n"


def pieces(data, rng):
    """Bytes cut anywhere."""
    while data:
        count = rng.choice((1, 7, 40, 400))
        yield data[:count]
        data = data[count:]


class Member:
    """The log of a member, written byte by byte."""

    def __init__(self, directory, member, members, rows):
        self.path = member_log.log_path(directory, member)
        log = member_log.LogWriter(str(directory), member=member, members=members, about={})
        log.close(member_log.OPEN)
        self.data = b"".join(
            struct.pack(
                "<qq", at, KINDS[kind] << 56 | (m or (member, 0))[0] << 32 | (m or (0, 0))[1]
            )
            for at, (kind, m) in enumerate(rows)
        )

    def write(self, count):
        """Append this number of bytes."""
        with self.path.open("ab") as file:
            file.write(self.data[:count])
        self.data = self.data[count:]

    def end(self, status):
        """Put the mark of an end."""
        with self.path.open("r+b") as file:
            file.seek(member_log.STATUS_AT)
            file.write(bytes([status]))

"""Defective machines of ``mobile``: the paper's errors, and those that found their way into drafts.

Each is the package's own text with an edit or two. The letters are those of the schedules in
``test_mobile_schedules.py``; An.x is line x of the paper's Algorithm n.
"""
# ruff: noqa: E501 - lines of the machines are quoted as they stand

import sys
import types

from precedes.protocols.mobile import messages
from tests.support.edited import FOLDER, edit
from tests.support.mobile.world import World

MOBILE = FOLDER / "mobile"
FILES = ("cell", "host", "station")

SERVES = "        if record is None or record.mode != OWN:\n            return None\n        return record if"
SKIPS = """                if stamp in skip:
                    skip.discard(stamp)
                    early.pop(stamp, None)
                elif stamp in early:
                    effects.append((DELIVER, early.pop(stamp)))
"""
SKIPS_LATE = """                if stamp in early:
                    effects.append((DELIVER, early.pop(stamp)))
                elif stamp in skip:
                    skip.discard(stamp)
"""
WINDOW = "        if not self.ok or self.mode not in (IN, DRAINING) or not self.unacknowledged:"
OLD = "        if session <= memory.birth or session <= memory.session:\n            return\n"
AGAIN = """            self.cell.repeat_answer(record)
            return
        memory = self.cell.remember(host)"""

# The defect -> what stands in a file, and what the mutant has instead.
MUTANTS = {
    "A: an acknowledgement overwrites the position (A1.36)": [
        ("            if self._acknowledged(number):\n",
         "            self.next_stamp = number\n            if self._acknowledged(number):\n"),
    ],
    "B: what was received stays over a change of cell (A1.6-10)": [
        ("        self.early: dict[int, Message] = {}\n",
         "        self.early: dict[int, Message] = getattr(self, 'early', {})\n"),
    ],
    "C: what comes between grant and want is taken from > mark (A4.91)": [
        ("range(record.mark, cell.next_stamp))\n        bodies",
         "range(record.mark + 1, cell.next_stamp))\n        bodies"),
    ],
    "C: what comes between grant and want is left out": [
        ("                since=since,", "                since=(),"),
    ],
    "D: delivered elsewhere is known of later copies only (A4.96)": [
        (SKIPS, SKIPS_LATE),
    ],
    "E: the owner is not frozen by a grant (A4.78)": [
        ("record.mode != OWN:\n            return None\n        return record if",
         "record.mode == 1:\n            return None\n        return record if"),
        ("return record if record.session == session and record.birth == birth else None",
         "return record if record.birth == birth else None"),
    ],
    "F: messages are accepted while the record is only wanted (A2.2-8)": [
        (SERVES, "        if record is None or record.mode == 2:\n"
         "            return None\n        return record if"),
        ("return record if record.session == session and record.birth == birth else None",
         "return record if record.birth == birth else None"),
    ],
    "G: the grant does not give the record its new session (A4.78)": [
        ("        record.session = request.session\n", ""),
    ],
    "H: a request that still waits deletes others (A4.55-61)": [
        ("                self.cell.flood(Request(",
         "                self.cell.flood(Cancel(host, birth, session))\n                self.cell.flood(Request("),
    ],
    "I: an old request is answered with its own session, and nobody else (A4.72)": [
        ("self.cell.flood(Cancel(host, birth, record.session))\n        elif",
         "self.cell.flood(Cancel(host, birth, message.session))\n        elif"),
        ("        self.cell.flood(Cancel(host, record.birth, record.session))\n", ""),
        ("        self.cell.flood(Cancel(host, record.birth, request.session))\n", ""),
    ],
    "J: transmission before the join is answered (A1.11-13)": [
        (WINDOW, "        if self.cell is None or self.mode in (OUT, LEAVING) "
         "or not self.unacknowledged:"),
        ("        self._say_hello()\n\n    def _forget",
         "        self._say_hello()\n        self._fill_window()\n\n    def _forget"),
    ],
    "K: nothing is remembered of a deleted record (A2.32)": [
        (OLD, ""),
    ],
    "L: nothing is remembered of a life that has ended (A2.39-43)": [
        ("        if memory is None or birth > memory.left:", "        if True:"),
    ],
    "M: a later life begins with the oldest message stored (A2.32-34)": [
        ("self.cell.base if datagram.previous == NONE else self.cell.next_stamp", "self.cell.base"),
    ],
    "M: a later life does not wait for the end of the one before": [
        ("datagram.previous != NONE and memory.left < datagram.previous", "False"),
    ],
    "N: the position is saved with acknowledgements only (IV-E)": [
        ("        if before != (self.caught_up, self.next_stamp):\n            self._persist()",
         "        del before"),
        ("        beyond = 0\n", "        self._persist()\n        beyond = 0\n"),
    ],
    "P: what is beyond the window is never sent": [
        ("                self._try_leave()\n                self._fill_window()\n",
         "                self._try_leave()\n"),
    ],
    "Q: catch-up messages and stamps share a counter (A2.13-17)": [
        ("        self.position(record, datagram.caught_up, datagram.next_stamp)\n        self._fill_catch_up",
         "        value = max(datagram.caught_up, datagram.next_stamp)\n"
         "        if value < self.base or not self.stored:\n"
         "            self.position(record, value, NONE)\n"
         "        else:\n"
         "            self.position(record, record.total, value)\n        self._fill_catch_up"),
    ],
    "S: births are learned from joins alone": [
        ("        memory.birth = birth\n        self._drop_older(host, birth)\n"
         "        record = self.cell.records.get(host)\n        if record is None:\n            if",
         "        self._drop_older(host, birth)\n"
         "        record = self.cell.records.get(host)\n        if record is None:\n            if"),
        ("        memory.birth = birth\n        self._drop_older(host, birth)\n"
         "        record = self.cell.records.get(host)\n        if record is None:\n            return",
         "        self._drop_older(host, birth)\n"
         "        record = self.cell.records.get(host)\n        if record is None:\n            return"),
    ],
    "T: what was acknowledged out of order is never repeated": [
        ("stamp == record.pointer or place < 0", "place < 0"),
        ("        record.beyond = record.beyond_from = 0\n", ""),
        ("            if datagram.next_stamp >= record.beyond_from:",
         "            if datagram.beyond:"),
    ],
    "A1.1: sessions and numbers are reset by a join": [
        ("        self.leave_wanted = False\n        self._persist()\n",
         "        self.leave_wanted = False\n        self.session = self.number = 0\n        self._persist()\n"),
    ],
    "A1.2: a join empties the send buffer": [
        ("        self.leave_wanted = False\n        self._persist()\n",
         "        self.leave_wanted = False\n        self.unacknowledged = {}\n        self._persist()\n"),
    ],
    "A1.3: a join or init is sent once": [
        ("            if not self.ok:\n                self._say_hello()", "            pass"),
    ],
    "A1.14: a leave is sent once": [
        ("            if self.mode == LEAVING:\n                self._say_leave()",
         "            pass"),
    ],
    "A1.14: a leave does not wait for own messages": [
        ("self.mode == DRAINING and not self.unacknowledged:", "self.mode == DRAINING:"),
    ],
    "A1.16: datagrams of other cells are heeded": [
        ("datagram.cell != self.cell or self.mode == OUT", "self.cell is None or self.mode == OUT"),
    ],
    "A1.24: the number of catch-up messages is not known": [
        ("if self.ok and self.caught_up == self.total:", "if self.ok:"),
    ],
    "A1.46: the end of a life is not told from that of another": [
        ("        if datagram.birth != self.birth:\n            return\n", ""),
    ],
    "A2.11: a late acknowledgement moves the position back": [
        ("record.pointer = max(record.pointer, next_stamp)", "record.pointer = next_stamp"),
    ],
    "A2.12: one host's acknowledgement discards for all": [
        ("            if record.pointer < base:\n                base = record.pointer\n",
         "            base = max(self.base, record.pointer)\n"),
    ],
    "A2.15: one acknowledgement ends the catching up": [
        ("        if fresh > 0:\n", "        if fresh > 0:\n            fresh = len(record.catch_up)\n"),
    ],
    "A2.22: the position of another session is taken": [
        ("        if datagram.last == record.session:\n", "        if True:\n"),
    ],
    "A2.29: a repeated request is not answered": [
        ("        if datagram.session == record.session:\n            self.cell.repeat_answer(record)\n",
         "        if datagram.session == record.session:\n"),
        (AGAIN, AGAIN.replace("self.cell.repeat_answer(record)", "pass")),
    ],
    "A2.40: a station that only wants the record obeys a leave": [
        ("        record = self.cell.serves(datagram.host, datagram.session, datagram.birth)\n"
         "        if record is not None:\n            self._end_life",
         "        record = self.cell.records.get(datagram.host)\n"
         "        if record is not None:\n            self._end_life"),
    ],
    "A4.57: a waiting request deletes owners, too": [
        ("record is None or record.mode != WANTED or record.birth", "record is None or record.birth"),
        ("                self.cell.flood(Request(",
         "                self.cell.flood(Cancel(host, birth, session))\n                self.cell.flood(Request("),
    ],
    "A4.65: a station with a record does not pass requests on": [
        ("        else:\n            self.cell.flood(message, source)\n",
         "        elif kind is not Request or message.host not in self.cell.records:\n"
         "            self.cell.flood(message, source)\n"),
    ],
    "A4.67: a second request is granted while the first is served": [
        ("        if record.mode == OWN:\n            if message.session",
         "        if record.mode != WANTED:\n            if message.session"),
    ],
    "A4.75: the position in the request is not looked at": [
        ("        if request.last == record.session:\n", "        if False:\n"),
    ],
    "A4.86: everything undelivered is caught up on": [
        ("        wanted = tuple(name for name in message.undelivered if name not in self.cell.stamps)",
         "        wanted = message.undelivered"),
    ],
    "A4.91: the record is let go before its messages are looked up": [
        ("        # From the mark on, itself", "        record.pointer = self.cell.next_stamp\n"
         "        self.cell.collect()\n        record.mark = max(record.mark, self.cell.base)\n        # From the mark on, itself"),
    ],
    "A4.100: a request that came meanwhile is forgotten": [
        ("        elif pending is not None:\n            self._give(message.host, record, pending)\n", ""),
    ],
}  # fmt: skip

# A send buffer is never emptied by a join of a host that left by itself: it is empty already.
# Those that were expelled show it, in ``test_mobile_lease.py``.
LEASED = ("A1.2: a join empties the send buffer",)


# Defects of the network around the machines, not of the machines.
class SideChannel(World):
    """O: handoff messages do not share the FIFO links of application messages."""

    def wire(self, source, target, message):
        aside = type(message) in messages.ROUTED
        at_ns = self.now_ns + self.rng.uniform(*self.options.wire_ms) * 1_000_000
        key = (source, target, aside)
        at_ns = max(at_ns, self.wire_free_ns.get(key, 0))
        self.wire_free_ns[key] = at_ns
        self.push(at_ns - self.now_ns, 1, target, source, message)


def classes(rows):
    """The host and station of a mutant, as (old, new) pairs of text somewhere in their files."""
    texts = {name: (MOBILE / f"{name}.py").read_text() for name in FILES}
    for old, new in rows:
        places = [name for name in FILES if old in texts[name]]
        assert len(places) == 1, f"{old!r} stands in {places}"
        texts[places[0]] = edit(texts[places[0]], (old, new))
    made = {}
    for name, text in texts.items():
        # The messages are everybody's; a machine tells them by their classes.
        text = text.replace("from .messages ", "from precedes.protocols.mobile.messages ")
        for before in made:
            text = text.replace(f"from .{before} ", f"from mutant_{before} ")
        module = made[name] = types.ModuleType(f"mutant_{name}")
        sys.modules[module.__name__] = module
        exec(compile(text, name, "exec"), vars(module))
    return made["host"].MobileHost, made["station"].MobileStation

"""Defective machines of ``mobile``: the paper's errors, and those that found their way into drafts.

Each is the package's own code with an edit or two. An.x is line x of the paper's Algorithm n.
"""

import ast
import sys
import types

from precedes.protocols.mobile import messages
from tests.support.convictions import Raises
from tests.support.edited import FOLDER, mutate
from tests.support.mobile.world import World

MOBILE = FOLDER / "mobile"
FILES = ("cell", "host", "station")

SKIPS = """
if stamp in skip: ...
elif stamp in early: effects.append(...)
else: break
"""
SKIPS_LATE = """
if stamp in early: effects.append((DELIVER, early.pop(stamp)))
elif stamp in skip: skip.discard(stamp)
else: break
"""
ANY_SESSION = ("serves", "record.session == session and ...", "...")
CANCELS = (
    "_on_init", "self.cell.flood(Request(...))",
    "self.cell.flood(Cancel(host, birth, session)); self.cell.flood(Request(...))",
    "host, birth, session = datagram.host, datagram.birth, datagram.session",
)  # fmt: skip
# A station looks for a message that it no longer stores.
GONE = Raises(KeyError, r"^\(\d+, \d+\)$")

# The defect -> what it is convicted for, and the edits: where, what stands there, what instead.
MUTANTS = {
    "A: an acknowledgement overwrites the position (A1.36)": (
        "I3",
        (
            "_on_ack", "if self._acknowledged(number): ...",
            "self.next_stamp = number\nif self._acknowledged(number): ...",
        ),
    ),
    "B: what was received stays over a change of cell (A1.6-10)": (
        "I3",
        ("_forget_session", "self.early: ... = {}", "self.early = getattr(self, 'early', {})"),
    ),
    "C: what comes between grant and want is taken from > mark (A4.91)": (
        "I3", ("_on_want", "range(record.mark, ...)", "range(record.mark + 1, ...)"),
    ),
    "C: what comes between grant and want is left out": (
        "I3", ("_on_want", "Handover(..., since=since)", "Handover(..., since=())"),
    ),
    "D: delivered elsewhere is known of later copies only (A4.96)": (
        "I3", ("_drain", SKIPS, SKIPS_LATE),
    ),
    "E: the owner is not frozen by a grant (A4.78)": (
        "I1", ("serves", "record.mode != OWN", "record.mode == 1"), ANY_SESSION,
    ),
    "F: messages are accepted while the record is only wanted (A2.2-8)": (
        "I1", ("serves", "record.mode != OWN", "record.mode == 2"), ANY_SESSION,
    ),
    "G: the grant does not give the record its new session (A4.78)": (
        "restless", ("_give", "record.session = request.session", ""),
    ),
    "H: a request that still waits deletes others (A4.55-61)": ("restless", CANCELS),
    "I: an old request is answered with its own session, and nobody else (A4.72)": (
        "restless",
        (
            "_on_request(self, message)", "Cancel(host, birth, record.session)",
            "Cancel(host, birth, message.session)",
        ),
        ("_attach", "self.cell.flood(Cancel(...))", ""),
        ("_give", "self.cell.flood(Cancel(...))", ""),
    ),
    "J: transmission before the join is answered (A1.11-13)": (
        "I1",
        (
            "_fill_window", "not self.ok or self.mode not in (IN, DRAINING) or ...",
            "self.cell is None or self.mode in (OUT, LEAVING) or ...",
        ),
        ("_new_session", "self._say_hello()", "self._say_hello(); self._fill_window()"),
    ),
    "K: nothing is remembered of a deleted record (A2.32)": (
        "I4", ("_on_join", "session <= memory.birth or session <= memory.session", "False"),
    ),
    "L: nothing is remembered of a life that has ended (A2.39-43)": (
        "restless", ("tell_if_over", "memory is None or ...", "True"),
    ),
    "M: a later life begins with the oldest message stored (A2.32-34)": (
        "I3", ("_on_join", "... if datagram.previous == NONE else ...", "..."),
    ),
    "M: a later life does not wait for the end of the one before": (
        "I2", ("_on_join", "datagram.previous != NONE and ...", "False"),
    ),
    "N: the position is saved with acknowledgements only (IV-E)": (
        "I3", ("_drain", "if before != ...: self._persist()", ""),
        ("_send_ack(self)", "beyond = 0", "self._persist(); beyond = 0"),
    ),
    "P: what is beyond the window is never sent": ("I7", ("_on_ack", "self._fill_window()", "")),
    "Q: catch-up messages and stamps share a counter (A2.13-17)": (
        "I3",
        (
            "on_host_ack", "self.position(record, datagram.caught_up, datagram.next_stamp)",
            """
            value = max(datagram.caught_up, datagram.next_stamp)
            if value < self.base or not self.stored:
                self.position(record, value, NONE)
            else:
                self.position(record, record.total, value)
            """,
        ),
    ),
    "S: births are learned from joins alone": (
        "restless", ("_on_init", "memory.birth = birth", ""),
        ("_on_request", "memory.birth = birth", ""),
    ),
    "T: what was acknowledged out of order is never repeated": (
        "restless", ("_is_missed", "stamp == record.pointer", "False"),
        ("start", "record.beyond = record.beyond_from = 0", ""),
        ("on_host_ack", "datagram.next_stamp >= record.beyond_from", "datagram.beyond"),
    ),
    "A1.1: sessions and numbers are reset by a join": (
        "I1",
        (
            "MobileHost.join", "self.leave_wanted = False",
            "self.leave_wanted = False; self.session = self.number = 0",
        ),
    ),
    "A1.2: a join empties the send buffer": (
        "I2",
        (
            "MobileHost.join", "self.leave_wanted = False",
            "self.leave_wanted = False; self.unacknowledged = {}",
        ),
    ),
    "A1.3: a join or init is sent once": ("restless", ("on_timer", "self._say_hello()", "")),
    "A1.14: a leave is sent once": ("restless", ("on_timer", "self._say_leave()", "")),
    "A1.14: a leave does not wait for own messages": (
        "left", ("_try_leave", "not self.unacknowledged", "True"),
    ),
    "A1.16: datagrams of other cells are accepted": (
        "I3",
        ("MobileHost.receive", "datagram.cell != self.cell or ...", "self.cell is None or ..."),
    ),
    "A1.24: the number of catch-up messages is not known": (
        "I3", ("_drain", "self.caught_up == self.total", "True"),
    ),
    "A1.46: the end of a life is taken for that of another": (
        "restless", ("_on_leave_ack", "datagram.birth != self.birth", "False"),
    ),
    "A2.11: a late acknowledgement moves the position back": (
        "range", ("position", "max(record.pointer, next_stamp)", "next_stamp"),
    ),
    "A2.12: one host's acknowledgement discards for all": (
        "I6",
        (
            "Cell.collect(self)", "if record.pointer < base: ...",
            "base = max(self.base, record.pointer)",
        ),
    ),
    "A2.15: one acknowledgement ends the catching up": (
        "I3",
        (
            "position(self, record)", "if fresh > 0: ...",
            "if fresh > 0: fresh = len(record.catch_up); ...",
        ),
    ),
    "A2.22: the position of another session is taken": (
        "I3", ("_attach", "datagram.last == record.session", "True"),
    ),
    "A2.29: a repeated request is not answered": (
        "restless", ("_attach", "self.cell.repeat_answer(...)", ""),
        ("_on_join", "self.cell.repeat_answer(...)", ""),
    ),
    "A2.40: a station that only wants the record obeys a leave": (
        "orphans",
        (
            "_on_leave", "self.cell.serves(datagram.host, ...)",
            "self.cell.records.get(datagram.host)",
        ),
    ),
    "A4.57: a waiting request deletes owners, too": (
        "restless", ("_on_cancel", "record.mode != WANTED", "False"), CANCELS,
    ),
    "A4.65: a station with a record does not pass requests on": (
        "restless",
        (
            "receive_wired", "self.cell.flood(message, source)",
            """
            if kind is not Request or message.host not in self.cell.records:
                self.cell.flood(message, source)
            """,
            "kind = type(message)",
        ),
    ),
    "A4.67: a second request is granted while the first is served": (
        "orphans", ("_on_request", "record.mode == OWN", "record.mode != WANTED"),
    ),
    "A4.75: the position in the request is not looked at": (
        "I3", ("_give", "request.last == record.session", "False"),
    ),
    "A4.86: everything undelivered is caught up on": (
        "I3", ("_on_grant(self, message)", "wanted = tuple(...)", "wanted = message.undelivered"),
    ),
    "A4.91: the record is let go before its messages are looked up": (
        GONE,
        (
            "_on_want(self)", "if record is None: return",
            """
            if record is None: return
            record.pointer = self.cell.next_stamp
            self.cell.collect()
            record.mark = max(record.mark, self.cell.base)
            """,
        ),
    ),
    "A4.100: a request that came meanwhile is forgotten": (
        "restless", ("_on_handover", "pending is not None", "False"),
    ),
}  # fmt: skip

# Those that only runs with leases show, in which hosts are expelled. A send buffer is never emptied
# by a join of a host that left by itself: it is empty already.
LEASED = {
    "A1.2: a join empties the send buffer": MUTANTS.pop("A1.2: a join empties the send buffer"),
    "a host that knows no lease": ("ended", ("_has_lease", "not lease_ns", "True")),
    "a lease is counted from the arrival of an acknowledgement": (
        "ended",
        (
            "_on_ack", "self.confirmed_ns = max(...)",
            "self.confirmed_ns = self.environment.now_ns",
        ),
    ),
    "an expelled host gets no report": (
        "restless", ("on_from_host", "self.tell_if_over(...)", ""),
        ("on_host_ack", "self.tell_if_over(...)", ""),
    ),
    "a host expelled before it was in gets no report": (
        "restless", ("_on_join", "session == memory.left", "False"),
    ),
}  # fmt: skip


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


def classes(*edits):
    """The host and station of a mutant."""
    trees = {name: ast.parse((MOBILE / f"{name}.py").read_text()) for name in FILES}
    for one in edits:
        mutate(trees, *one)
    made = {}
    for name, tree in trees.items():
        # The messages are everybody's; a machine tells them by their classes.
        text = ast.unparse(tree).replace("from .messages ", f"from {messages.__name__} ")
        for before in made:
            text = text.replace(f"from .{before} ", f"from mutant_{before} ")
        module = made[name] = types.ModuleType(f"mutant_{name}")
        sys.modules[module.__name__] = module
        exec(compile(text, name, "exec"), vars(module))
    return made["host"].MobileHost, made["station"].MobileStation

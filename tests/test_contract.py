"""Every protocol keeps the contract, and a file that breaks a rule of it is told which one."""

import ast
from pathlib import Path

import pytest

from precedes import simulate, sources
from precedes.errors import InternalError, UserError
from precedes.registry import ContractError, linked, load, names
from precedes.sim import Scenario
from precedes.sim.engine import loop
from precedes.testing import Kind, assert_conforms, conformance
from tests.support import edited
from tests.support.places import BATCHES

DELIVERED = "        deliver(host, value_of(inbox, i))\n"
SENT = "    send_all(host, DATA, slot)\n"
IMPORTED = "    deliver,\n"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", linked())
def test_conforms(name):
    found = assert_conforms(name, schedules=20, seed=1)
    print(found)
    assert found.deliveries > 1000
    if load(name).guarantee == "none":
        assert found.violations > 0, "the negative control was not convicted"


@pytest.mark.usefixtures("engine")
@pytest.mark.parametrize("name", linked())
def test_keeps_the_rules_on_networks_it_does_not_assume(name):
    assert_conforms(name, schedules=15, seed=1, hostile=True)


@pytest.mark.usefixtures("engine")
def test_everything_a_handler_may_ask_for():
    """Timers, kept messages, packets of many items, names, notes and crashes, compiled too."""
    assert_conforms(BATCHES, schedules=25, seed=1)


def test_adding_a_file_adds_the_protocol():
    folder = edited.FOLDER
    texts = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.py")}
    texts |= {path.parent.name: path.read_text() for path in folder.glob("*/__init__.py")}
    assert set(names()) == {stem for stem, text in texts.items() if "\nGUARANTEE: " in text}
    for name in names():
        assert load(name).name == name
        assert len(load(name).summary) > 20


# What is wrong with a file, as edits of ``unordered``, and what its author is told.
REFUSED = {
    "docstring": (
        [('"""Broadcast', 'TEXT = """Broadcast'), ("from __future__ import annotations\n", "")],
        "no docstring",
    ),
    "state": ([("class State(", "class Other("), ("-> State:", "-> object:")], "State"),
    "parameters": ([("class Parameters:", "class Other:")], "Parameters"),
    "items": ([("ITEMS: Final = ", "OTHER: Final = ")], "ITEMS is missing"),
    "message fields": ([("MESSAGE_FIELDS: Final", "OTHER: Final")], "MESSAGE_FIELDS is missing"),
    "guarantee": ([("GUARANTEE: Final", "OTHER: Final")], "GUARANTEE is missing"),
    "assumes": ([("ASSUMES: Final", "OTHER: Final")], "ASSUMES is missing"),
    "allocate": ([("def allocate(", "def other(")], r"allocate\(.*\) is missing"),
    "wrong guarantee": (
        [('GUARANTEE: Final = "none"', 'GUARANTEE: Final = "total order"')],
        "GUARANTEE must be one of causal, probable, none, not 'total order'",
    ),
    "wrong assumption": (
        [('{"reliable", "unique"}', '{"lossless"}')],
        r"ASSUMES may name reliable, unique, fifo, not \['lossless'\]",
    ),
    "first item": ([("(MESSAGE,)", "(2, MESSAGE)")], r"ITEMS\[0\] must be MESSAGE"),
    "no items": ([("(MESSAGE,)", "()")], r"ITEMS\[0\] must be MESSAGE"),
    "no broadcast": (
        [("@compiled.register(broadcast, State)\n", "")],
        "no broadcast is registered for its State",
    ),
    "no receive": (
        [("@compiled.register(receive, State)\n", "")],
        "no receive is registered for its State",
    ),
    "no size": (
        [("@compiled.register(message_bytes, State)\n", "")],
        "no message_bytes is registered for its State",
    ),
    "no dataclass": (
        [("@dataclass(frozen=True)\n", "")],
        "Parameters must be a dataclass",
    ),
    "no default": (
        [('    """Nothing to choose."""\n', '    """One to choose."""\n\n    size: int\n')],
        "Parameters must have a default for every field",
    ),
    "another state": (
        [("return State(hosted=np.array(group.hosted, np.int64))", "return (1, 2)")],
        "allocate returns tuple, not its State",
    ),
    "field without rows": (
        [("MESSAGE_FIELDS: Final[tuple[str, ...]] = ()", 'MESSAGE_FIELDS: Final = ("hosted",)')],
        "MESSAGE_FIELDS names 'hosted', which has not one row per slot",
    ),
    "field that is not there": (
        [("MESSAGE_FIELDS: Final[tuple[str, ...]] = ()", 'MESSAGE_FIELDS: Final = ("clock",)')],
        "MESSAGE_FIELDS names 'clock', which has not one row per slot",
    ),
    "import": (
        [("import numpy as np", "import numpy_of_another_name as np")],
        "cannot be imported",
    ),
    "syntax": ([("class State(", "class class State(")], "cannot be imported"),
    "a program's end": (
        [("import numpy as np", "import numpy as np\nraise SystemExit(0)")],
        "cannot be imported: it ends the program",
    ),
}


@pytest.mark.parametrize("rule", REFUSED)
def test_refused_at_import(rule, tmp_path):
    edits, match = REFUSED[rule]
    path = edited.protocol(tmp_path, "unordered", *edits)
    with pytest.raises(ContractError, match=match) as raised:
        load(path)
    assert path in str(raised.value)
    with pytest.raises(ContractError, match=match):
        conformance(path, schedules=1)


def test_no_such_file(tmp_path):
    with pytest.raises(UserError, match=r"there is no protocol file .*absent\.py"):
        load(str(tmp_path / "absent.py"))


def test_no_such_protocol():
    with pytest.raises(UserError, match=r"there is no protocol 'vectr' .did you mean 'vector'"):
        load("vectr")


# Rules that only a run can show, as edits of a protocol, and what the suite says about them.
BROKEN = {
    "delivers twice": (
        "unordered",
        [(DELIVERED, DELIVERED + DELIVERED)],
        "delivers message .* without holding a reference",
    ),
    "never delivers": ("unordered", [(DELIVERED, "        pass\n")], "deliveries never came"),
    "drops everything": (
        "unordered",
        [(DELIVERED, "        drop(host, value_of(inbox, i))\n"),
         (IMPORTED, "    deliver,\n    drop,\n")],
        "deliveries never came",
    ),
    "never ends a reference": (
        "vector",
        [("            drop(host, slot)\n        elif", "            pass\n        elif")],
        "neither delivered nor dropped what it received",
    ),
    "drops without a reference": (
        "unordered",
        [
            (SENT, SENT + "    drop(host, slot)\n"),
            (IMPORTED, "    deliver,\n    drop,\n"),
        ],
        "broadcast at node .* drops message .* without holding",
    ),
    "delivers its own": (
        "unordered",
        [(SENT, SENT + "    deliver(host, slot)\n")],
        "which it delivered by broadcasting it",
    ),
    "changes what it sent": (
        "vector",
        [("            clock[source] += 1\n            deliver(host, slot)\n",
          "            clock[source] += 1\n            deliver(host, slot)\n"
          "            state.need[slot, 0] += 1\n")],
        "fields of message .* changed after it had been sent",
    ),
    "too many effects": (
        "unordered",
        [("@compiled.register(broadcast, State)",
          "def effects_words(capacity, nodes):\n    return 4\n\n\n"
          "@compiled.register(broadcast, State)")],
        "InternalError: .* asked for more effects than its effects_words allows",
    ),
    "full after a change": (
        "vector",
        [("    if not can_hold(state.held, count):\n",
          "    state.clock[here, -1] += 1\n    if not can_hold(state.held, count):\n")],
        "receive returned FULL after it had changed something",
    ),
    "neither done nor full": (
        "unordered",
        [(SENT + "    return DONE\n", SENT + "    return 7\n")],
        "broadcast returned 7, not DONE or FULL",
    ),
    "forwards after the end": (
        "unordered",
        [(DELIVERED, DELIVERED + "        if sender == source_of(host, value_of(inbox, i)):\n"
          "            send_all(host, DATA, value_of(inbox, i))\n"),
         (IMPORTED, "    deliver,\n    source_of,\n")],
        "receive at node .* sends message .* without holding a reference",
    ),
    "sends to itself": (
        "unordered",
        [(SENT, "    send(host, here, DATA, slot)\n"), (IMPORTED, "    deliver,\n    send,\n")],
        "sends to node",
    ),
    "sends to nobody": (
        "unordered",
        [(SENT, "    send(host, 12, DATA, slot)\n"), (IMPORTED, "    deliver,\n    send,\n")],
        "sends to node 12 of",
    ),
    "sends nothing": (
        "unordered",
        [(SENT, SENT + "    open_packet(host, 1 - min(here, 1))\n"),
         (IMPORTED, "    deliver,\n    open_packet,\n")],
        "sends a packet without items",
    ),
    "sends what it did not declare": (
        "unordered",
        [(SENT, SENT + "    send_all(host, 3, slot)\n")],
        "sends an item of tag 3, which is not in ITEMS",
    ),
    "notes what nobody knows": (
        "unordered",
        [(SENT, SENT + "    note(host, 99, slot)\n"), (IMPORTED, "    deliver,\n    note,\n")],
        "notes an unknown kind 99",
    ),
    "has a secret": (
        "unordered",
        [("    return 8\n", "    SECRET.append(slot)\n    return len(SECRET)\n"),
         ("DATA: Final = 0\n", "DATA: Final = 0\nSECRET = []\n")],
        "the same seed gave something else the second time",
    ),
    "promises too much": (
        "unordered",
        [('GUARANTEE: Final = "none"', 'GUARANTEE: Final = "causal"')],
        "causal order was broken: .* precedes",
    ),
    "assumes too little": (
        "unordered",
        [('{"reliable", "unique"}', '{"reliable"}')],
        "a message was delivered twice",
    ),
    "fails": (
        "unordered",
        [(SENT, "    raise ZeroDivisionError\n")],
        "ZeroDivisionError",
    ),
}  # fmt: skip


KINDS = {
    "drops everything": Kind.LOST,
    "never delivers": Kind.LOST,
    "delivers twice": Kind.REFERENCE,
    "never ends a reference": Kind.REFERENCE,
    "drops without a reference": Kind.REFERENCE,
    "delivers its own": Kind.OWN,
    "changes what it sent": Kind.FIELDS,
    "too many effects": Kind.RAISED,
    "full after a change": Kind.FULL,
    "forwards after the end": Kind.REFERENCE,
    "has a secret": Kind.DIFFERENT,
    "promises too much": Kind.ORDER,
    "assumes too little": Kind.TWICE,
    "fails": Kind.RAISED,
}  # of the others: EFFECT


@pytest.mark.parametrize("rule", BROKEN)
def test_broken_in_a_run(rule, tmp_path):
    name, edits, match = BROKEN[rule]
    path = edited.protocol(tmp_path, name, *edits)
    with pytest.raises(AssertionError, match=match) as raised:
        assert_conforms(path, schedules=12, seed=1, compiled=False)
    assert f"python -m precedes.testing {path} --seed " in str(raised.value)
    (failure,) = conformance(path, schedules=12, seed=1, compiled=False, failures_max=1).failures
    assert failure.kind == KINDS.get(rule, Kind.EFFECT)
    assert bool(failure.raised) == (failure.kind == Kind.RAISED)


def test_a_failure_repeats_from_its_seed(tmp_path):
    path = edited.protocol(
        tmp_path, "unordered", ('GUARANTEE: Final = "none"', 'GUARANTEE: Final = "causal"')
    )
    failures = conformance(path, schedules=12, seed=1, compiled=False).failures
    assert len(failures) > 1
    last = failures[-1]
    assert (last.kind, last.raised) == (Kind.ORDER, "")
    assert conformance(path, schedules=1, seed=last.seed, compiled=False).failures == (last,)


SMALL = {"nodes": 4, "messages": 40, "delay": "uniform:1:90"}


def test_the_simulator_itself_notices(tmp_path):
    """Without the suite, a run that cannot be trusted ends in an error, not in a result."""
    twice = edited.protocol(
        tmp_path, "unordered", (DELIVERED, DELIVERED + DELIVERED), rename="twice"
    )
    with pytest.raises(InternalError, match=r"twice broke the contract: node .* more than it had"):
        simulate(Scenario(protocol=twice, **SMALL), tier="interpreted")
    _, edits, _ = BROKEN["too many effects"]
    much = edited.protocol(tmp_path, "unordered", *edits, rename="much")
    with pytest.raises(InternalError, match="protocol much: a handler asked for more effects"):
        simulate(Scenario(protocol=much, **SMALL), tier="interpreted")


def test_a_users_own_file(tmp_path):
    """Every other message is dropped: the simplest protocol that nobody else has."""
    path = edited.protocol(
        tmp_path,
        "unordered",
        (
            DELIVERED,
            "        if sequence_of(host, value_of(inbox, i)) % 2:\n    "
            f"{DELIVERED}        else:\n            drop(host, value_of(inbox, i))\n",
        ),
        (IMPORTED, "    deliver,\n    drop,\n    sequence_of,\n"),
        rename="every_other",
    )
    result = simulate(Scenario(protocol=path, **SMALL), tier="interpreted")
    ours = simulate(Scenario(protocol="unordered", **SMALL), tier="interpreted")
    assert result.protocol == "every_other"
    assert result.broadcasts == ours.broadcasts == 40
    assert 0 < result.deliveries < ours.deliveries == 120
    assert result.deliveries + result.extra["dropped"] == 120
    assert result.lost == result.extra["dropped"]


def test_an_edited_file_is_another_protocol(tmp_path):
    """Also within one process, as in a notebook."""
    scenario = Scenario(protocol=edited.protocol(tmp_path, "unordered"), **SMALL)
    before = simulate(scenario, tier="interpreted")
    edited.protocol(tmp_path, "unordered", ("    return 8\n", "    return 9\n"))
    after = simulate(scenario, tier="interpreted")
    assert after.bytes_sent == before.bytes_sent + before.packets


def test_an_edited_helper_is_another_protocol(tmp_path):
    helper = tmp_path / "header_size.py"
    helper.write_text("BYTES = 8\n")
    path = edited.protocol(
        tmp_path,
        "unordered",
        ("    return 8\n", "    return header_size.BYTES\n"),
        ("import numpy as np\n", f"import sys\n\nsys.path.insert(0, {str(tmp_path)!r})\n"
         "import header_size\nimport numpy as np\n\ndel sys.path[0]\n"),
    )  # fmt: skip
    scenario = Scenario(protocol=path, **SMALL)
    before = simulate(scenario, tier="interpreted")
    helper.write_text("BYTES = 9\n")
    after = simulate(scenario, tier="interpreted")
    assert after.bytes_sent == before.bytes_sent + before.packets


def test_a_users_own_folder(tmp_path):
    """A package with relative imports: all its files count, and two versions run side by side."""
    path = edited.protocol(tmp_path, "vcube", rename="mine")
    scenario = Scenario(protocol=path, parameters={"tolerant": False}, **SMALL)
    first = load(path)
    ours = simulate(scenario.replace(protocol="vcube"), tier="interpreted")
    before = simulate(scenario, tier="interpreted")
    assert before.protocol == "mine"
    assert (before.bytes_sent, before.packets) == (ours.bytes_sent, ours.packets)
    parts = loop.ENTRY.parts(first.state, first.sources)
    assert set(Path(path).glob("*.py")) == set(first.sources) <= set(parts)

    compiled_from = sources.digest(parts)
    edited.edit_folder(Path(path), "ENTRY_BYTES: Final = 4", "ENTRY_BYTES: Final = 5")
    assert sources.digest(parts) != compiled_from
    after = simulate(scenario, tier="interpreted")
    assert after.bytes_sent > before.bytes_sent
    assert load(path).state is not first.state


def test_no_such_folder(tmp_path):
    with pytest.raises(UserError, match=r"there is no protocol file .*absent/__init__\.py"):
        load(str(tmp_path / "absent"))


def test_a_folder_that_fails_to_import(tmp_path):
    path = edited.protocol(
        tmp_path, "vcube", ("ENTRY_BYTES: Final = 4", "ENTRY_BYTES: Final = absent")
    )
    with pytest.raises(ContractError, match="cannot be imported"):
        load(path)
    edited.edit_folder(Path(path), "Final = absent", "Final = 4")
    assert load(path).guarantee == "causal"


def users_of_parts():
    """Each file of ``precedes.parts``, and the protocols and other rooms that import it."""
    folder = sources.PACKAGE / "parts"
    users = {f"precedes.parts.{dotted(file, folder)}": set() for file in folder.rglob("[!_]*.py")}
    for file in sources.files():
        room, *inner = file.relative_to(sources.PACKAGE).with_suffix("").parts
        if room == "parts":
            continue
        user = inner[0] if room == "protocols" else room
        for name in sources.imports(ast.parse(file.read_bytes())):
            for part in {name, name.rpartition(".")[0]} & set(users):
                users[part].add(user)
    return users


def dotted(file, folder):
    return ".".join(file.relative_to(folder).with_suffix("").parts)


def test_parts_are_shared():
    """What one protocol alone uses belongs to it, not to ``precedes.parts``."""
    users = users_of_parts()
    assert {"precedes.parts.pool", "precedes.parts.hash_check.queue"} <= set(users)
    assert {part: found for part, found in users.items() if len(found) < 2} == {}

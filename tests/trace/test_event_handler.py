"""Logs that a program writes through `logging`, and what the audit says about them."""

import logging
import threading

import pytest

from precedes import EventHandler, UserError, load
from precedes.audit import audit
from tests.support.processes import python


@pytest.fixture
def loggers(tmp_path):
    """A logger for each of three nodes, all of which write into one file."""
    path = tmp_path / "events.jsonl"
    made = []
    for node in ("ann", "bob", "eve"):
        log = logging.getLogger(f"test_event_handler.{node}")
        log.setLevel(logging.INFO)
        log.propagate = False
        handler = EventHandler(path, node=node)
        log.addHandler(handler)
        made.append((log, handler))
    yield path, [log for log, _ in made]
    for log, handler in made:
        log.removeHandler(handler)
        handler.close()


def event(log, kind, message):
    log.info("%s %s", kind, message, extra={"event": (kind, message)})


@pytest.mark.parametrize(
    ("order", "verdict"), [(("question", "answer"), "held"), (("answer", "question"), "violated")]
)
def test_the_audit_judges_what_a_program_logged(loggers, order, verdict):
    path, (ann, bob, eve) = loggers
    event(ann, "broadcast", "question")
    event(bob, "deliver", "question")
    bob.info("not an event")
    event(bob, "broadcast", "answer")
    for message in order:
        event(eve, "deliver", message)
    (report,) = audit(path)
    assert (report.verdict, report.deliveries) == (verdict, 3)


def test_lines_of_threads_are_whole(loggers):
    path, (ann, *_) = loggers

    def broadcast(thread):
        for number in range(200):
            event(ann, "broadcast", f"{thread}-{number}" + "x" * 5_000)

    threads = [threading.Thread(target=broadcast, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    (history,) = load(path)
    assert history.offsets[-1] == 800


def test_half_a_line_of_a_killed_program_is_removed(tmp_path):
    path = tmp_path / "ann.jsonl"
    line = '{"node": "ann", "kind": "broadcast", "message": "m%d"}\n'
    path.write_text(line % 1 + (line % 2)[:20])
    with pytest.raises(UserError):
        load(path)
    handler = EventHandler(path, node="ann")
    handler.handle(logging.makeLogRecord({"event": ("broadcast", "m3")}))
    handler.close()
    (history,) = load(path)
    assert history.offsets[-1] == 2


def test_an_event_that_is_no_pair_does_not_stop_the_program(tmp_path):
    code = """
import logging, sys
from precedes import EventHandler
logging.basicConfig(level=logging.INFO, handlers=[EventHandler(sys.argv[1], node=1)])
logging.info("wrong", extra={"event": "broadcast"})
logging.info("right", extra={"event": ("broadcast", 7)})
"""
    done = python("-c", code, tmp_path / "log")
    assert (done.returncode, "Logging error" in done.stderr) == (0, True)
    assert (tmp_path / "log").read_text().count("\n") == 1

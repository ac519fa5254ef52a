"""Pages of small logs, read back."""

import json

from precedes.viewer import html, write_view
from tests.support.places import ROOT
from tests.support.unpacked import head_of, traces_of


def test_the_chat_opens_on_its_violation(tmp_path):
    view = write_view(ROOT / "examples" / "chat.jsonl", tmp_path / "chat.html")
    page = (tmp_path / "chat.html").read_text(encoding="utf-8")
    assert page == view.text
    head = head_of(page)
    (trace,) = traces_of(page)
    assert trace.head["lanes"] == ["ann", "bob", "eve"]
    assert trace.lane("ann") == [("broadcast", "question"), ("deliver", "answer")]
    assert trace.lane("eve") == [("deliver", "answer"), ("deliver", "question")]
    (wrong,) = trace.head["violations"]
    assert [trace.events[at].lane for at in wrong["path"]] == ["ann", "bob", "bob", "eve"]
    assert wrong["sentence"].startswith("node eve delivered answer before question")
    assert trace.events[wrong["event"]].is_violation
    assert sum(event.is_violation for event in trace.events) == 1
    opening = head["opening"]
    assert (opening["why"], opening["violation"]) == ("first violation", 0)
    framed = [trace.events[at].time_us for at in wrong["path"]]
    assert opening["from_us"] < min(framed) <= max(framed) < opening["to_us"]


def test_a_log_in_order_opens_where_most_happens(tmp_path):
    log = tmp_path / "log.jsonl"
    rows = [("a", "broadcast", "x"), ("b", "deliver", "x"), ("b", "broadcast", "y")]
    rows.append(("a", "deliver", "y"))
    keys = ("node", "kind", "message")
    log.write_text("\n".join(json.dumps(dict(zip(keys, r, strict=True))) for r in rows))
    page = html(log)
    assert head_of(page)["opening"]["why"] == "busiest window"
    (trace,) = traces_of(page)
    assert trace.head["verdict"] == "held"
    assert not any(event.is_violation for event in trace.events)
    assert not trace.head["violations"]


def test_a_name_cannot_end_its_element(tmp_path):
    log = tmp_path / "log.jsonl"
    evil = "</script><script>alert(1)</script>"
    rows = [{"node": "a", "kind": "broadcast", "message": evil}]
    rows.append({"node": evil, "kind": "deliver", "message": evil})
    log.write_text("\n".join(map(json.dumps, rows)))
    page = html(log)
    assert "alert(1)</script>" not in page
    (trace,) = traces_of(page)
    assert trace.lane(evil) == [("deliver", evil)]

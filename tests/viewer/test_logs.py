"""Logs of other systems: their texts, the edges that they contain, and what a reader sees first.

``logs/facebook.log`` is one of the examples of ShiViz, with its licence in the same directory.
"""

import itertools
import json
import random
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from precedes.sim import Scenario, simulate
from precedes.trace import Dialect
from precedes.viewer import html, write_view
from tests.support import executions
from tests.support.browser import complaints, too_wide
from tests.support.otlp import as_spans
from tests.support.places import DATA
from tests.support.unpacked import head_of, traces_of
from tests.support.view_screen import opened, press, settled, state, words

FACEBOOK = Path(__file__).with_name("logs") / "facebook.log"


def computation(seed, *, nodes=4, events=60):
    """Events (node, clock), and for each those that precede it, by number."""
    rng = random.Random(seed)
    clocks, past, last, made = [{} for _ in range(nodes)], [], {}, []
    for number in range(events):
        node = rng.randrange(nodes)
        causes = [last[node]] if node in last else []
        if number and rng.random() < 0.6:
            causes.append(rng.randrange(number))
        known = set(causes).union(*(past[cause] for cause in causes))
        clock = {}
        for one in known:
            name, entry = made[one]
            clock[name] = max(clock.get(name, 0), entry[name])
        clocks[node][f"n{node}"] = clock[f"n{node}"] = clocks[node].get(f"n{node}", 0) + 1
        made.append((f"n{node}", clock))
        past.append(known)
        last[node] = number
    return made, past


def directly_before(past, number):
    """Events that precede one, with no other one in between."""
    return [one for one in past[number] if not any(one in past[other] for other in past[number])]


def drawn_edges(trace):
    """Edges as (message, message of the event that follows it)."""
    found, waiting = set(), {}
    for event in trace.events:
        if event.kind == "edge":
            waiting.setdefault(event.lane, []).append(event.message)
        elif event.kind == "broadcast":
            found |= {(cause, event.message) for cause in waiting.pop(event.lane, [])}
    assert not waiting
    return found


def label(made, number):
    name, clock = made[number]
    return f"{name}:{clock[name]}"


@pytest.mark.parametrize("seed", range(5))
def test_a_log_with_clocks_has_the_edges_that_its_clocks_say(tmp_path, seed):
    made, past = computation(seed)
    lines = [f"{name} {json.dumps(clock)}\nstep {k}" for k, (name, clock) in enumerate(made)]
    (tmp_path / "clocks.log").write_text("\n".join(lines) + "\n")
    (trace,) = traces_of(html(tmp_path / "clocks.log"))
    expected = {
        (label(made, one), label(made, number))
        for number in range(len(made))
        for one in directly_before(past, number)
        if made[one][0] != made[number][0]
    }
    assert expected
    assert drawn_edges(trace) == expected
    assert len(trace.events) - trace.head["edges"] == len(made)
    texts = {
        event.message: text
        for event, text in zip(trace.events, trace.texts, strict=True)
        if event.kind == "broadcast"
    }
    assert texts == {label(made, k): f"step {k}" for k in range(len(made))}


@pytest.mark.parametrize("seed", range(5))
def test_an_editing_trace_has_the_edges_of_its_parents(tmp_path, seed):
    made, past = computation(seed)
    parents = [sorted(directly_before(past, number)) for number in range(len(made))]
    listed = [
        {"agent": made[k][0], "parents": parents[k], "patches": [[k, 0, "x"]]}
        for k in range(len(made))
    ]
    (tmp_path / "edits.json").write_text(json.dumps({"kind": "concurrent", "txns": listed}))
    (trace,) = traces_of(html(tmp_path / "edits.json"))
    assert drawn_edges(trace) == {
        (str(one), str(k))
        for k in range(len(made))
        for one in parents[k]
        if made[one][0] != made[k][0]
    }
    assert trace.texts[[e.message for e in trace.events].index("3")] is not None


def test_times_that_tell_nothing_apart_are_not_drawn(tmp_path):
    listed = [
        {
            "agent": k % 2,
            "parents": [k - 1] if k else [],
            "patches": [],
            "time": f"2023-11-22T03:57:{k // 20:02d}+00:00",
        }
        for k in range(40)
    ]
    (tmp_path / "edits.json").write_text(json.dumps({"kind": "concurrent", "txns": listed}))
    (trace,) = traces_of(html(tmp_path / "edits.json"))
    assert "too coarse" in trace.head["time_note"]
    assert [event.time_us for event in trace.events if event.kind == "broadcast"] == [
        1000 * (k + 1) for k in range(40)
    ]


def test_texts_of_other_formats(tmp_path):
    rows = [("ann", "broadcast", "q", "asks"), ("bob", "deliver", "q", "hears  it\nat last")]
    keys = ("node", "kind", "message", "text")
    lines = [json.dumps(dict(zip(keys, row, strict=True))) for row in rows]
    (tmp_path / "log.jsonl").write_text("\n".join(lines))
    table = "node,kind,message,said\nann,broadcast,q,asks\nbob,deliver,q,\n"
    (tmp_path / "log.csv").write_text(table)
    requests = as_spans([row[:3] for row in rows], random.Random(1), step_ns=10**6)
    (tmp_path / "spans.jsonl").write_text("\n".join(requests))
    (tmp_path / "bare.jsonl").write_text("\n".join(lines).replace('"text"', '"note"'))
    texts = {
        name: traces_of(html(tmp_path / name, dialect=dialect))[0].texts
        for name, dialect in (
            ("log.jsonl", None),
            ("log.csv", Dialect(columns={"text": "said"})),
            ("spans.jsonl", None),
            ("bare.jsonl", None),
        )
    }
    assert texts == {
        "log.jsonl": ["asks", "hears it at last"],
        "log.csv": ["asks", None],
        "spans.jsonl": ["orders publish", "orders process"],
        "bare.jsonl": [],
    }


def test_a_delivery_that_a_clock_only_implies_is_shown_if_it_is_wrong(tmp_path):
    """The clock of eve has bob's first event by way of the second, and none of ann's."""
    events = [
        ("ann", {"ann": 1}),
        ("bob", {"ann": 1, "bob": 1}),
        ("bob", {"ann": 1, "bob": 2}),
        ("eve", {"bob": 2, "eve": 1}),
    ]
    lines = [f"{name} {json.dumps(clock)}\nsomething" for name, clock in events]
    (tmp_path / "log.log").write_text("\n".join(lines) + "\n")
    page = html(tmp_path / "log.log")
    (trace,) = traces_of(page)
    assert head_of(page)["opening"]["violation"] == 0
    wrong = [(e.lane, e.message) for e in trace.events if e.is_violation]
    assert wrong == [("eve", "bob:1"), ("eve", "bob:2")]
    path = [trace.events[at] for at in trace.head["violations"][0]["path"]]
    assert [(e.lane, e.message) for e in path] == [
        ("ann", "ann:1"),
        ("bob", "ann:1"),
        ("bob", "bob:1"),
        ("eve", "bob:1"),
    ]


# What is on the screen --------------------------------------------------------------------


def editing(folder):
    made, past = computation(7, nodes=3, events=400)
    listed = [
        {"agent": made[k][0], "parents": directly_before(past, k), "patches": [[k, 0, f"word{k}"]]}
        for k in range(len(made))
    ]
    path = folder / "edits.json"
    path.write_text(json.dumps({"kind": "concurrent", "txns": listed}))
    return path, {}


def spans(folder):
    execution = executions.run(3, nodes=4, messages=60, order="causal")
    rows = [row[:3] for row in executions.timed_rows(execution, random.Random(5))]
    path = folder / "spans.jsonl"
    path.write_text("\n".join(as_spans(rows, random.Random(2), step_ns=10**6)))
    return path, {}


def fifty(folder):
    path = folder / "fifty.parquet"
    scenario = Scenario(protocol="vector", nodes=50, messages=60, seed=2)
    simulate(scenario, trace=path, tier="interpreted")
    return path, {}


SEEN = {"facebook": lambda _: (FACEBOOK, {}), "editing": editing, "spans": spans, "fifty": fifty}
TSVIZ = r"^(?<timestamp>(\d*)) (?<event>.*)\n(?<host>\w*) (?<clock>.*)"
REAL = {
    "shiviz/chord.log": {},
    "shiviz/simpledb.log": {},
    "shiviz/voldemort.log": {},
    "shiviz/tsviz_fslock_24t_4sp.log": {"dialect": Dialect(parser=TSVIZ)},
    "shiviz/tsviz_shared_var_4_threads.log": {"dialect": Dialect(parser=TSVIZ)},
    "editing-traces/clownschool.json.gz": {},
}


def crossed(label, arrow):
    """Return whether an arrow passes through a label, by points along it."""
    points = [k / 200 for k in range(201)]
    xs = [arrow["x1"] + (arrow["x2"] - arrow["x1"]) * k for k in points]
    ys = [arrow["y1"] + (arrow["y2"] - arrow["y1"]) * k for k in points]
    right, bottom = label["left"] + label["width"], label["top"] + label["height"]
    return any(
        label["left"] < x < right and label["top"] < y < bottom for x, y in zip(xs, ys, strict=True)
    )


def overlap(a, b):
    across = a["left"] < b["left"] + b["width"] and b["left"] < a["left"] + a["width"]
    return across and a["top"] < b["top"] + b["height"] and b["top"] < a["top"] + a["height"]


def check_screen(browser, *, labels_min=3):
    """Labels that can be read, an edge in the window, and nothing on top of anything else."""
    settled(browser)
    (stage,) = state(browser)["stages"]
    box = browser.find_element("css selector", ".stage").rect
    labels, arrows = stage["labels"], stage["arrows"]
    assert len(labels) >= labels_min
    for one in labels:
        assert one["text"].strip()
        assert one["width"] >= 5
        assert stage["gutter"] <= one["left"] <= one["left"] + one["width"] <= box["width"]
    inside = [
        a
        for a in arrows
        if all(stage["gutter"] <= a[x] <= box["width"] for x in ("x1", "x2"))
        and all(0 <= a[y] <= box["height"] for y in ("y1", "y2"))
    ]
    assert inside
    assert [(b["text"], a) for b in labels for a in arrows if crossed(b, a)] == []
    pairs = itertools.combinations(labels, 2)
    assert [(a["text"], b["text"]) for a, b in pairs if overlap(a, b)] == []
    for xs in stage["marks"]:
        assert all(b - a >= 8 for a, b in itertools.pairwise(xs))
    assert complaints(browser) == []
    assert too_wide(browser) == []
    return labels


def test_what_the_check_would_find():
    label = {"left": 100, "top": 50, "width": 80, "height": 15, "text": "here"}
    assert crossed(label, {"x1": 90, "y1": 0, "x2": 160, "y2": 100})
    assert not crossed(label, {"x1": 90, "y1": 0, "x2": 95, "y2": 100})
    assert overlap(label, {**label, "left": 170})
    assert not overlap(label, {**label, "left": 181})


@pytest.fixture(scope="module")
def pages(folder):
    """Pages of these logs, each written once."""
    known = {}

    def page(name):
        if name not in known:
            path, options = SEEN[name](folder) if name in SEEN else (DATA / name, REAL[name])
            known[name] = folder / f"{name.replace('/', '-')}.html"
            write_view(path, known[name], **options)
        return known[name]

    return page


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
@pytest.mark.parametrize("name", SEEN)
def test_a_log_opens_on_events_that_can_be_read(browser, pages, name, width, scheme):
    opened(browser, pages(name), width=width, scheme=scheme)
    check_screen(browser, labels_min=1 if name == "fifty" else 3)


@pytest.mark.skipif(not DATA.is_dir(), reason="the real logs are not here")
@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("name", REAL)
def test_real_logs_open_on_events_that_can_be_read(browser, pages, name, width):
    opened(browser, pages(name), width=width)
    check_screen(browser)


def test_a_text_is_in_the_label_the_panel_and_the_search(browser, pages):
    opened(browser, pages("facebook"))
    shown = {one["text"] for one in check_screen(browser)}
    texts = FACEBOOK.read_text(encoding="utf-8")
    assert all(text in " ".join(texts.split()) for text in shown)
    press(browser, "/", "GET /timeline", Keys.ENTER)
    (text,) = browser.find_elements("id", "text")
    assert text.text == "24.22.130.14 5/27/2013 10:53:39 AM GET /timeline uid=alice location=kansas"
    assert words(browser, "live").startswith(text.text)
    assert words(browser, "sentence").startswith("Event of alice at step 1")
    # The selection has arrows and labels of its own.
    assert any("GET /timeline" in one["text"] for one in check_screen(browser))
    press(browser, "c")
    check_screen(browser)


def test_a_dense_log_is_drawn_as_strips(browser, pages):
    opened(browser, pages("editing"))
    press(browser, "f")
    settled(browser)
    (stage,) = state(browser)["stages"]
    assert stage["detail"] == "bands"
    assert stage["runs"] >= 3
    assert stage["seenEvents"] == 400

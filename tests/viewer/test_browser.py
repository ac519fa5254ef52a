"""The viewer's page in a browser: what it opens on, what it tells, what is drawn."""

import itertools
import re

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from precedes.sim.runs import simulate
from precedes.viewer import write_view
from tests.support import view_pages
from tests.support.browser import (
    SCHEMES,
    WIDTHS,
    complaints,
    is_dark,
    show,
    too_wide,
    without_words,
)
from tests.support.view_pages import BROADCAST, DELIVERY, STRANDED, Execution
from tests.support.view_screen import (
    inked,
    opened,
    pixels,
    press,
    selected,
    settled,
    state,
    wait_for,
    words,
)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_opens_on_the_first_violation(browser, broken, width, scheme):
    path, made = broken
    found = opened(browser, path, width=width, scheme=scheme)
    assert complaints(browser) == []
    assert too_wide(browser) == []
    assert without_words(browser) == []
    assert is_dark(browser) == (scheme == "dark")
    first = made.violations[0]
    assert found["violation"] == {"trace": 0, "number": 0}
    assert selected(browser) == (made.name(first["message"]), first["event"])
    assert first["sentence"] in words(browser, "violation")
    box = browser.execute_script(
        "return [...document.querySelectorAll('.stage, .panel')].map((one) => {"
        " const { left, top, right, bottom } = one.getBoundingClientRect();"
        " return [left, top, right, bottom]; })"
    )
    stage, panel = box
    assert (panel[1] >= stage[3]) if width == 390 else (panel[0] >= stage[2])


def test_the_witness_is_drawn_from_cause_to_effect(browser, broken):
    path, made = broken
    first = made.violations[0]
    events = [made.events[at] for at in first["path"]]
    span = [min(e[0] for e in events) - 2000, max(e[0] for e in events) + 2000]
    framed = view_pages.write(
        path.with_name("framed.html"), made, opening={"from_us": span[0], "to_us": span[1]}
    )
    opened(browser, framed)
    for before, after in itertools.pairwise(first["path"]):
        assert inked(browser, before, after) > 200
    press(browser, Keys.ESCAPE)
    for before, after in itertools.pairwise(first["path"]):
        assert inked(browser, before, after) == 0
    assert not browser.find_element("id", "violation").is_displayed()


def test_real_runs_in_lockstep(browser, folder):
    """Of one load, in no order and in causal order: from the run to the screen."""
    load = {"nodes": 5, "messages": 60, "rate": 400, "seed": 4, "tier": "interpreted"}
    traces = [folder / f"{protocol}.parquet" for protocol in ("unordered", "vector")]
    for trace in traces:
        simulate(trace.stem, trace=trace, **load)
    view = write_view(traces, folder / "real.html")
    found = opened(browser, folder / "real.html")
    assert complaints(browser) == []
    violation = view.traces[0]["violations"][0]
    assert found["violation"] == {"trace": 0, "number": 0}
    assert violation["sentence"] in words(browser, "violation")
    assert found["stages"][1]["selected"]["message"] >= 0
    places = [
        browser.execute_script("return precedes.place(arguments[0])", event)
        for event in violation["path"]
    ]
    box = browser.find_element("css selector", ".stage").rect
    for at in places:
        assert box["x"] < at["x"] < box["x"] + box["width"]
        assert box["y"] < at["y"] < box["y"] + box["height"]
    assert "unordered and vector" in words(browser, "lockstep")
    assert re.search(r"Waited in all: unordered 0 ms, vector [1-9]", words(browser, "lockstep"))


def test_violations_in_turn(browser, broken):
    path, made = broken
    opened(browser, path)
    last = len(made.violations) - 1
    assert press(browser, "n")["violation"]["number"] == 1
    assert made.violations[1]["sentence"] in words(browser, "violation")
    assert press(browser, "p", "p")["violation"]["number"] == last
    browser.find_element("id", "violation-next").click()
    found = state(browser)
    assert found["violation"]["number"] == 0
    low, high = found["window"]
    assert all(low < made.events[at][0] < high for at in made.violations[0]["path"])
    # Brackets go along the witness.
    path = made.violations[0]["path"]
    for at in reversed(path[:-1]):
        assert press(browser, "[")["selection"]["event"] == at
    assert state(browser)["violation"]["number"] == 0
    assert press(browser, "]")["selection"]["event"] == path[1]


def life():
    """One message that waits, in a group of six."""
    made = Execution([str(k) for k in range(6)])
    first, second = made.message(1), made.message(2)
    made.sources = [(1, 7), (2, 4), (3, 1)]
    made.events = [
        (1_000, 1, BROADCAST, first, 0),
        (2_000, 2, BROADCAST, second, 0),
        (4_000, 3, DELIVERY, first, 0),
        (5_000, 3, DELIVERY, second, 0),
        (12_400, 3, BROADCAST, 2, 0),
        *((14_000 + lane, lane, DELIVERY, 2, 0) for lane in (0, 1, 2, 4)),
        (24_100, 5, DELIVERY, first, 0),
        (24_100, 5, DELIVERY, 2, 8_100),
    ]
    return made


def test_a_message_in_words(browser, folder):
    made = life()
    opened(browser, view_pages.write(folder / "life.html", made, opening={"message": 2}))
    wait_for(browser, "return precedes.state.stages[0].selected.isDone")
    assert words(browser, "sentence") == (
        "Broadcast by 3 at 12.4 ms after delivering 1:7 and 2:4; delivered at 0, 1, 2 and 4; "
        "at 5 it waited 8.1 ms for 1:7."
    )
    assert words(browser, "cone-words") == "Cone: 4 events before it and 5 after it."
    rows = [row.text for row in browser.find_elements("css selector", "#selection tbody tr")]
    assert rows[0] == "3 broadcast 12.4 ms 3"
    assert rows[-1] == "5 delivered 24.1 ms 2 8.1 ms 1:7"
    assert len(rows) == 6
    # The wait is a bar on the lane, from arrival to delivery.
    assert inked(browser, 10, 10, 0) > 0
    found = browser.execute_script(
        "const at = precedes.place(10);"
        "const canvas = document.querySelectorAll('.stage canvas')[1];"
        "const box = canvas.getBoundingClientRect(); const [from, to] = precedes.state.window;"
        "const wide = (box.width - precedes.state.stages[0].gutter) / (to - from);"
        "const ink = (us) => canvas.getContext('2d').getImageData("
        "Math.round(at.x - us * wide - box.left), Math.round(at.y - box.top), 1, 1).data[3];"
        "return [ink(7900), ink(4000), ink(8600)]"
    )
    assert found[0] > 150
    assert found[1] > 150
    assert found[2] == 0


@pytest.mark.parametrize("which", ["broken", "ordered"])
def test_cones_and_depth_are_what_happened_before(browser, which, request):
    path, made = request.getfixturevalue(which)
    opened(browser, path)
    before = view_pages.precedence(made)
    sent = {e[3]: at for at, e in enumerate(made.events) if e[2] == BROADCAST}
    places, lanes = [], [[] for _ in made.lanes]
    for at, (_, lane, *_rest) in enumerate(made.events):
        places.append(len(lanes[lane]))
        lanes[lane].append(at)
    for message in list(sent)[::5]:
        press(browser, Keys.ESCAPE, "/", made.name(message), Keys.ENTER)
        wait_for(browser, "return precedes.state.stages[0].selected.isDone")
        found = state(browser)["stages"][0]["selected"]
        at = sent[message]
        for lane, events in enumerate(lanes):
            past = [k for k in events if places[k] < found["past"][lane]]
            future = [k for k in events if places[k] >= found["future"][lane]]
            assert past == [k for k in events if k in before[at]], (message, lane)
            assert future == [k for k in events if at in before[k] or k == at], (message, lane)
        earlier = {m for m, k in sent.items() if k in before[at]}
        direct = {m for m in earlier if not any(sent[m] in before[sent[o]] for o in earlier)}
        assert set(found["direct"]) == direct
    press(browser, "t")
    depth = browser.execute_script("return precedes.depth[0]")
    longest = []
    for known in before:
        longest.append(1 + max((longest[k] for k in known), default=0))
    assert depth == longest
    assert state(browser)["axis"] == "depth"
    assert browser.find_element("id", "axis-depth").get_attribute("aria-pressed") == "true"


def test_direct_and_full_cone_are_drawn(browser, folder, ordered):
    _, made = ordered
    path = view_pages.write(folder / "capped.html", made, cone_events=40)
    opened(browser, path)
    press(browser, "/", made.name(len(made.sources) // 2), Keys.ENTER)
    wait_for(browser, "return precedes.state.stages[0].selected.isDone")
    direct = pixels(browser, 1)
    assert press(browser, "c")["isFull"]
    assert pixels(browser, 1) != direct
    assert "stopped after looking at" in words(browser, "cone-words")
    assert "at least" in words(browser, "live")
    browser.find_element("id", "direct").click()
    assert pixels(browser, 1) == direct


def test_lockstep(browser, folder):
    first = view_pages.random_execution(5, nodes=4, messages=20, protocol="vector")
    second = view_pages.random_execution(5, nodes=4, messages=20, causal=False, protocol="dcs")
    path = view_pages.write(folder / "two.html", first, second)
    found = opened(browser, path)
    assert complaints(browser) == []
    assert len(found["stages"]) == 2
    waits = [
        {(e[3], e[1]): e[4] for e in made.events if e[2] != BROADCAST} for made in (first, second)
    ]
    (message, lane), wait = max(waits[0].items(), key=lambda one: one[1])
    press(browser, "/", first.name(message), Keys.ENTER)
    events = [
        next(k for k, e in enumerate(made.events) if e[3] == message and e[1] == lane)
        for made in (first, second)
    ]
    while selected(browser)[1] != events[0]:
        press(browser, "]")
    assert [one["selected"]["event"] for one in state(browser)["stages"]] == events
    text = words(browser, "lockstep")
    here = f"{first.name(message)} at {first.lanes[lane]}"
    assert f"{here}: vector waited {wait / 1000:.1f} ms, dcs 0 ms." in text
    longer = sum(waits[0][key] > waits[1][key] for key in waits[0])
    assert "20 messages in both, 0 only in vector, 0 only in dcs." in text
    assert (
        f"Of {len(waits[0])} deliveries in both, {longer} waited longer in vector and 0 in dcs"
        in text
    )
    # A selection in the lower one is one in both, and so is the window.
    press(browser, Keys.ESCAPE, "n")
    found = state(browser)
    assert found["violation"]["trace"] == 1
    assert found["stages"][0]["selected"]["message"] == found["stages"][1]["selected"]["message"]


def test_marks_on_lanes(browser, folder):
    made = life()
    made.marks = [
        {"lane": 4, "time_us": 16_000, "kind": "crash", "text": "4 stopped"},
        {"lane": 0, "time_us": 18_000, "kind": "view", "text": "0 counts on 5 members"},
    ]
    plain = view_pages.write(folder / "plain.html", life())
    opened(browser, plain)
    without = pixels(browser, 0)
    opened(browser, view_pages.write(folder / "marks.html", made))
    assert pixels(browser, 0) != without
    assert press(browser, "m")["focusMark"] == "crash"
    assert words(browser, "live") == "4: crash. 4 stopped"
    assert press(browser, "m")["focusMark"] == "view"
    assert press(browser, "m")["focusMark"] == "crash"
    assert press(browser, "M")["focusMark"] == "view"
    press(browser, "t", "m")
    assert words(browser, "live") == "4: crash. 4 stopped"
    press(browser, "t")
    at = browser.execute_script(
        "const a = precedes.place(8);"
        "const box = document.querySelector('.stage').getBoundingClientRect();"
        "const [from, to] = precedes.state.window, { gutter } = precedes.state.stages[0];"
        "return [box.left + gutter + (16000 - from) / (to - from) * (box.width - gutter), a.y]"
    )
    ActionChains(browser).move_by_offset(0, 0).perform()
    action = ActionChains(browser)
    up = state(browser)["stages"][0]["rowHeight"] / 2 - 10
    action.w3c_actions.pointer_action.move_to_location(int(at[0] + 6), int(at[1] - up))
    action.perform()
    assert words(browser, "tip") == "4: crash at 16 ms. 4 stopped"
    assert complaints(browser) == []


def large(nodes, messages):
    """Many events, without an order between them that means anything."""
    made = Execution([f"node-{k}" for k in range(nodes)])
    rows = []
    for message in range(messages):
        source, at = message % nodes, message * 1_000
        made.sources.append((source, 1 + message // nodes))
        rows.append((at, source, BROADCAST, message, 0))
        rows += [
            (
                at + 5_000 + 137 * ((lane * 31 + message) % 97),
                lane,
                DELIVERY,
                message,
                (lane % 3) * 900,
            )
            for lane in range(nodes)
            if lane != source
        ]
    made.events = sorted(rows)
    return made


def test_a_hundred_thousand_events(browser, folder):
    made = large(50, 2_000)
    path = view_pages.write(folder / "large.html", made)
    assert path.stat().st_size < 3_000_000
    opened(browser, path)
    assert complaints(browser) == []
    stage = press(browser, "f")["stages"][0]
    assert stage["detail"] == "bands"
    assert stage["scrollMax"] > 0
    assert press(browser, "s", "s")["stages"][0]["scroll"] > 0
    while state(browser)["stages"][0]["detail"] == "bands":
        press(browser, "+")
        settled(browser)
    assert 0 < state(browser)["stages"][0]["seenEvents"] < 100_000
    press(browser, Keys.ARROW_RIGHT, "c")
    wait_for(browser, "return precedes.state.stages[0].selected.isDone")
    press(browser, "/")
    press(browser, "node-3:40", Keys.ENTER)
    assert selected(browser)[0] == "node-3:40"
    # What of the message is beyond the edges is counted.
    settled(browser)
    low, high = state(browser)["window"]
    events = [e for e in made.events if e[3] == 39 * 50 + 3]
    beyond = state(browser)["stages"][0]["beyond"]
    assert beyond["left"] == sum(e[0] < low for e in events)
    assert beyond["right"] == sum(e[0] > high for e in events)
    assert beyond["above"] + beyond["below"] > 0


def test_runs_are_collapsed_until_there_is_room(browser, folder):
    made = Execution(["a", "b"])
    made.sources = [(0, k + 1) for k in range(90)]
    made.events = [(k // 9 * 50_000 + k % 9 * 100, 0, BROADCAST, k, 0) for k in range(90)]
    found = opened(browser, view_pages.write(folder / "runs.html", made))
    assert (found["stages"][0]["detail"], found["stages"][0]["runs"]) == ("bands", 10)
    press(browser, Keys.ARROW_RIGHT, *["+"] * 12)
    settled(browser)
    assert state(browser)["stages"][0]["runs"] == 0


def test_pages_with_little_on_them(browser, folder):
    show(browser, view_pages.write(folder / "none.html", Execution(["a", "b"])))
    wait_for(browser, "return document.querySelector('.empty') !== null")
    assert "no events" in words(browser, "stages")
    assert complaints(browser) == []
    assert too_wide(browser) == []
    alone = Execution(["alone"], left_out={"sentence": "7 events of 2 nodes were left out."})
    alone.sources = [(0, 1)]
    alone.events = [(1_000, 0, BROADCAST, 0, 0)]
    alone.has_time = False
    opened(browser, view_pages.write(folder / "alone.html", alone), width=390)
    assert "7 events of 2 nodes were left out." in words(browser, "notes")
    assert "the axis is logical" in words(browser, "notes")
    assert press(browser, Keys.ARROW_RIGHT)["selection"]["name"] == "alone:1"
    press(browser, "t", "c", "f", "+", Keys.ARROW_DOWN, "]")
    assert (
        words(browser, "sentence")
        == "Broadcast by alone at step 1; delivered nowhere on this page."
    )
    assert complaints(browser) == []
    assert too_wide(browser) == []


def test_what_was_never_delivered_is_reported(browser, folder):
    made = life()
    made.events[-1] = (24_100, 5, STRANDED, 2, 0)
    opened(browser, view_pages.write(folder / "stranded.html", made, opening={"message": 2}))
    assert words(browser, "sentence").endswith("delivered at 0, 1, 2 and 4; never delivered at 5.")


def test_a_finding_that_is_one_event_is_shown_with_its_message(browser, folder):
    made = life()
    made.events[-1] = (24_100, 5, STRANDED, 2, 0)
    made.violations = [
        {
            "number": 1,
            "kind": "lost",
            "sentence": "5 never delivered 3:1.",
            "lane": 5,
            "message": 2,
            "lacked": None,
            "event": 4,
            "path": [4],
        }
    ]
    near = {"from_us": 12_390, "to_us": 12_410}
    found = opened(browser, view_pages.write(folder / "lost.html", made, opening=near))
    low, high = found["window"]
    assert low < 12_400 < 24_100 < high
    assert "Violation 1 of 1" in words(browser, "violation")
    assert complaints(browser) == []
    press(browser, "n")
    low, high = state(browser)["window"]
    assert low < 12_400 < 24_100 < high


def test_colours_follow_the_system_and_paper(browser, ordered):
    opened(browser, ordered[0])
    light = pixels(browser, 0)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    assert pixels(browser, 0) != light
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print", "features": []})
    assert not browser.find_element("css selector", ".tools").is_displayed()
    assert all(one.is_displayed() for one in browser.find_elements("css selector", ".stage canvas"))
    features = [{"name": "prefers-color-scheme", "value": "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    assert pixels(browser, 0) == light

"""The viewer's page in a browser: what keys, pointers and buttons do."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from tests.support.browser import awaited, complaints
from tests.support.view_pages import BROADCAST, DELIVERY
from tests.support.view_screen import (
    click,
    inked,
    opened,
    pixels,
    press,
    selected,
    state,
    words,
)


def test_click_selects_and_a_click_off_an_event_does_not(browser, ordered):
    path, made = ordered
    opened(browser, path)
    before = pixels(browser, 1)
    event = next(at for at, e in enumerate(made.events) if e[2] == DELIVERY and e[0] > 20_000)
    name = made.name(made.events[event][3])
    click(browser, event)
    found = selected(browser)
    assert made.events[found[1]][1] == made.events[event][1]
    assert abs(made.events[found[1]][0] - made.events[event][0]) < 2_000
    assert pixels(browser, 1) != before
    assert words(browser, "live").startswith(found[0])
    assert browser.find_element("css selector", "#selection h2").text == f"Message {found[0]}"
    assert name in {made.name(e[3]) for e in made.events}
    click(browser, event, away=30)
    assert selected(browser) is None


def test_keys_walk_lanes_and_messages(browser, ordered):
    path, made = ordered
    opened(browser, path)
    lane = [at for at, e in enumerate(made.events) if e[1] == 0]
    assert press(browser, Keys.ARROW_RIGHT)["selection"]["event"] == lane[0]
    assert press(browser, Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)["selection"]["event"] == lane[2]
    assert press(browser, Keys.ARROW_LEFT)["selection"]["event"] == lane[1]
    below = press(browser, Keys.ARROW_DOWN)["selection"]["event"]
    near = [at for at, e in enumerate(made.events) if e[1] == 1]
    here = made.events[lane[1]][0]
    assert made.events[below][1] == 1
    assert abs(made.events[below][0] - here) == min(abs(made.events[k][0] - here) for k in near)
    assert made.events[press(browser, Keys.ARROW_UP)["selection"]["event"]][1] == 0
    press(browser, Keys.ESCAPE)
    assert selected(browser) is None
    message = made.events[press(browser, Keys.ARROW_RIGHT)["selection"]["event"]][3]
    path = [at for at, e in enumerate(made.events) if e[3] == message]
    at = path.index(selected(browser)[1])
    press(browser, *["["] * at)
    assert selected(browser)[1] == path[0]
    for step in path[1:]:
        assert press(browser, "]")["selection"]["event"] == step
    press(browser, "]")
    assert words(browser, "live") == "the last event of the path"


def test_keys_zoom_pan_and_fit(browser, ordered):
    opened(browser, ordered[0])
    all_of_it = press(browser, "f")["window"]
    low, high = press(browser, "+")["window"]
    assert high - low == pytest.approx((all_of_it[1] - all_of_it[0]) / 1.5)
    panned = press(browser, "d")["window"]
    assert panned[0] == pytest.approx(low + (high - low) / 4)
    assert press(browser, "a")["window"] == pytest.approx([low, high])
    low, high = press(browser, "-", "+", "+")["window"]
    assert press(browser, "f")["window"] == pytest.approx(all_of_it)
    press(browser, "?")
    assert browser.find_element("id", "keys").is_displayed()
    assert "fit everything" in words(browser, "keys")
    press(browser, Keys.ESCAPE)
    assert not browser.find_element("id", "keys").is_displayed()
    assert complaints(browser) == []


def test_wheel_drag_and_pinch(browser, ordered):
    opened(browser, ordered[0])
    low, high = press(browser, "f", "+", "+")["window"]
    at = browser.find_element("css selector", ".stage").rect
    x, y = int(at["x"] + at["width"] / 2), int(at["y"] + at["height"] - 20)
    ActionChains(browser).scroll_by_amount(0, 0).perform()
    drag = ActionChains(browser)
    drag.w3c_actions.pointer_action.move_to_location(x, y).pointer_down().move_to_location(
        x - 200, y
    ).pointer_up()
    drag.perform()
    dragged = state(browser)["window"]
    width = at["width"] - state(browser)["stages"][0]["gutter"]
    assert dragged[0] - low == pytest.approx(200 * (high - low) / width, rel=0.02)
    browser.execute_script(
        "document.querySelector('.stage').dispatchEvent(new WheelEvent('wheel', {deltaY: -100,"
        " clientX: arguments[0], clientY: arguments[1], cancelable: true}))",
        x,
        y,
    )
    wheeled = state(browser)["window"]
    assert wheeled[1] - wheeled[0] < dragged[1] - dragged[0]
    browser.execute_script(
        """
        const stage = document.querySelector(".stage");
        stage.setPointerCapture = () => {};
        const [x, y] = arguments;
        const send = (kind, pointerId, at) => stage.dispatchEvent(new PointerEvent(kind,
          { pointerId, pointerType: "touch", clientX: at, clientY: y, bubbles: true }));
        send("pointerdown", 1, x - 40);
        send("pointerdown", 2, x + 40);
        for (const step of [60, 80, 120]) {
          send("pointermove", 1, x - step);
          send("pointermove", 2, x + step);
        }
        send("pointerup", 1, x - 120);
        send("pointerup", 2, x + 120);
        """,
        x,
        y,
    )
    pinched = state(browser)["window"]
    assert pinched[1] - pinched[0] == pytest.approx((wheeled[1] - wheeled[0]) * 100 / 260, rel=0.01)
    assert selected(browser) is None


def test_search(browser, ordered):
    path, made = ordered
    opened(browser, path)
    press(browser, "+", "+", "+")
    last = max(range(len(made.sources)), key=lambda m: made.sources[m][1])
    press(browser, "/", made.name(last)[:2])
    options = [one.text for one in browser.find_elements("css selector", "#matches [role=option]")]
    assert options[0] == f"{made.name(last)[:2]} · node"
    assert len(options) == 1 + sum(source == made.sources[last][0] for source, _ in made.sources)
    press(browser, made.name(last)[2:], Keys.ENTER)
    found = state(browser)
    at = next(k for k, e in enumerate(made.events) if e[2] == BROADCAST and e[3] == last)
    assert found["selection"] == {"trace": 0, "message": last, "event": at, "name": made.name(last)}
    assert found["window"][0] < made.events[at][0] < found["window"][1]
    assert not browser.find_element("id", "matches").is_displayed()
    press(browser, "/", "nobody")
    assert words(browser, "matches") == "nothing has this name"
    press(browser, Keys.ENTER, Keys.ESCAPE)
    assert selected(browser)[0] == made.name(last)


def lane_button(browser, key):
    # The list is filled when the browser tells that its place is open, some time after the click.
    return awaited(browser, f'[data-key="{key}"]')


def test_lanes_are_moved_hidden_and_pinned(browser, ordered):
    path, made = ordered
    opened(browser, path)
    rows = [f"n{k}" for k in range(6)]
    assert state(browser)["stages"][0]["rows"] == rows
    browser.find_element("css selector", "#lanes summary").click()
    lane_button(browser, "down n0").send_keys(Keys.ENTER)
    assert state(browser)["stages"][0]["rows"] == ["n1", "n0", "n2", "n3", "n4", "n5"]
    assert browser.switch_to.active_element.get_attribute("data-key") == "down n0"
    lane_button(browser, "pin n4").click()
    found = state(browser)["stages"][0]
    assert (found["rows"], found["fixed"]) == (["n4", "n1", "n0", "n2", "n3", "n5"], 1)
    lane_button(browser, "hide n1").click()
    assert state(browser)["stages"][0]["rows"] == ["n4", "n0", "n2", "n3", "n5"]
    assert lane_button(browser, "hide n1").get_attribute("aria-pressed") == "true"
    # Arrows end where the lanes are now.
    message = next(m for m, (lane, _) in enumerate(made.sources) if lane == 5)
    press(browser, Keys.ESCAPE, "/", made.name(message), Keys.ENTER)
    sent, *others = [k for k, e in enumerate(made.events) if e[3] == message]
    shown = [k for k in others if made.events[k][1] != 1 and not made.events[k][4]]
    assert shown
    for event in shown:
        assert inked(browser, sent, event) > 150, made.events[event]
    # Keys do the same to the lane in focus.
    assert press(browser, "h")["stages"][0]["rows"] == ["n4", "n0", "n2", "n3"]
    assert press(browser, "h", "k")["stages"][0]["rows"] == ["n4", "n5", "n0", "n2", "n3"]
    assert press(browser, "u")["stages"][0]["rows"] == ["n5", "n4", "n0", "n2", "n3"]
    browser.find_element("xpath", "//button[text()='Show all']").click()
    assert sorted(state(browser)["stages"][0]["rows"]) == rows


def test_the_window_moves_unless_less_motion_is_asked_for(browser, ordered):
    # Frames come every 16 ms of a clock of our own: no machine is too slow for them.
    steps = """
        const known = [window.requestAnimationFrame, window.cancelAnimationFrame];
        const frames = new Map();
        let [now_ms, number] = [0, 0];
        window.requestAnimationFrame = (frame) => { frames.set(++number, frame); return number; };
        window.cancelAnimationFrame = (which) => frames.delete(which);
        performance.now = () => now_ms;
        document.getElementById("fit").click();
        const seen = [precedes.state.window[0]];
        for (; now_ms < 400; now_ms += 16) {
          const asked = [...frames.values()];
          frames.clear();
          asked.forEach((frame) => frame(now_ms));
          seen.push(precedes.state.window[0]);
        }
        [window.requestAnimationFrame, window.cancelAnimationFrame] = known;
        delete performance.now;
        return seen;
    """
    moved = {}
    for is_less in (True, False):
        opened(browser, ordered[0], reduced_motion=is_less)
        press(browser, "+", "+")
        moved[is_less] = browser.execute_script(steps)
    assert len(set(moved[True])) == 1
    assert len(set(moved[False])) > 5
    assert moved[False] == sorted(moved[False], reverse=True)
    assert moved[False][-1] == pytest.approx(moved[True][-1])
    # What is pressed on the way starts from where the way ends.
    made = ordered[1]
    sent = {e[3]: e[0] for e in made.events if e[2] == BROADCAST}
    last = max(sent, key=sent.get)
    press(browser, *["+"] * 8, "/", made.name(last), Keys.ENTER, "-", "c")
    low, high = state(browser)["window"]
    assert low < sent[last] < high


def test_the_diagram_is_reached_by_keyboard(browser, ordered):
    opened(browser, ordered[0])
    for _ in range(20):
        press(browser, Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == "stages":
            break
    focused = browser.switch_to.active_element
    assert focused.get_attribute("id") == "stages"
    assert focused.value_of_css_property("outline-style") == "solid"
    assert "6 nodes" in focused.accessible_name
    press(browser, Keys.ARROW_RIGHT)
    assert selected(browser)[0] in words(browser, "live")

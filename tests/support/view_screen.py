"""The viewer's page on a screen: open it, press and click, and read what it shows."""

import time

from selenium.webdriver.common.action_chains import ActionChains

from tests.support.browser import (
    complaints,
    show,
)


def opened(browser, path, **screen):
    """The page, once it is drawn; what its hook says."""
    show(browser, path, **{"reduced_motion": True, **screen})
    wait_for(browser, "return 'precedes' in window")
    return state(browser)


def wait_for(browser, script, *, limit_s=30):
    until = time.monotonic() + limit_s
    while not browser.execute_script(script):
        assert time.monotonic() < until, (script, complaints(browser))
        time.sleep(0.02)


def state(browser):
    return browser.execute_script("return window.precedes.state")


def selected(browser):
    """Name of the selected message and the number of the event in focus."""
    found = state(browser)["selection"]
    return found and (found["name"], found["event"])


def press(browser, *keys):
    ActionChains(browser).send_keys(*keys).perform()
    return state(browser)


def click(browser, event, trace=0, *, away=0):
    """A click of the mouse on an event, or that many pixels below it."""
    at = browser.execute_script("return precedes.place(...arguments)", event, trace)
    action = ActionChains(browser)
    action.w3c_actions.pointer_action.move_to_location(int(at["x"] + 0.5), int(at["y"]) + away)
    action.w3c_actions.pointer_action.click()
    action.perform()
    return state(browser)


def words(browser, name):
    return browser.find_element("id", name).text


def settled(browser):
    """After what was asked for is drawn."""
    browser.execute_async_script(
        "requestAnimationFrame(() => requestAnimationFrame(arguments[0]))",
    )


def pixels(browser, layer, trace=0):
    """A digest of all that is on one of the two canvases."""
    settled(browser)
    return browser.execute_script(
        """
        const stage = document.querySelectorAll(".stage")[arguments[1]];
        const canvas = stage.querySelectorAll("canvas")[arguments[0]];
        const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let sum = 0;
        for (let k = 0; k < data.length; k += 1) sum = (sum * 31 + data[k]) % 4294967291;
        return sum;
        """,
        layer,
        trace,
    )


def inked(browser, first, second, share=0.5):
    """Opacity of the upper canvas at a point of the line between two events."""
    settled(browser)
    return browser.execute_script(
        """
        const [a, b] = [precedes.place(arguments[0]), precedes.place(arguments[1])];
        const canvas = document.querySelectorAll(".stage canvas")[1];
        const box = canvas.getBoundingClientRect();
        const x = Math.round(a.x + (b.x - a.x) * arguments[2] - box.left) - 1;
        const y = Math.round(a.y + (b.y - a.y) * arguments[2] - box.top) - 1;
        const { data } = canvas.getContext("2d").getImageData(x, y, 3, 3);
        return Math.max(...data.filter((_, k) => k % 4 === 3));
        """,
        first,
        second,
        share,
    )

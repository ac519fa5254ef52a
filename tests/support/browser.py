"""Pages in a real browser: Debian's chromium, driven through chromium-driver.

``browser`` (tests/conftest.py) is one for all tests of a process; where there is none, these tests
are skipped, but in the gate they fail. A test that fails leaves a picture of what was on the screen
in build/screenshots, or where PRECEDES_SCREENSHOTS says.
"""

import contextlib
import os
import re
import shutil
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support import expected_conditions
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.places import ROOT

WIDTHS = (1280, 390)
SCHEMES = ("light", "dark")
PROGRAMS = ("chromium", "chromedriver")
NO_BROWSER = "no browser: apt-get install chromium chromium-driver"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--force-device-scale-factor=1",
)
WAIT_S = 60  # for what a page computes, on a machine with other work


class NoBrowser(Exception):
    """It is not installed here."""


@contextlib.contextmanager
def start():
    """A browser of its own, with an empty profile; both of its processes end with it.

    The driver makes the profile. In a directory of ours, Chromium 150 starts no search of the site.
    """
    chromium, chromedriver = map(shutil.which, PROGRAMS)
    if chromium is None or chromedriver is None:
        raise NoBrowser(NO_BROWSER)
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(chromedriver))
    try:
        driver.set_script_timeout(WAIT_S)
        driver.set_page_load_timeout(WAIT_S)
        yield driver
    finally:
        driver.quit()


def show(driver, path, *, width=1280, height=800, scheme="light", reduced_motion=False):
    """Open a page from disk on a screen of this size; what it says there is forgotten before."""
    features = [
        {"name": "prefers-color-scheme", "value": scheme},
        {"name": "prefers-reduced-motion", "value": "reduce" if reduced_motion else ""},
    ]
    screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": features})
    driver.get_log("browser")
    where = Path(path)
    fragment = ""
    if "#" in where.name:
        name, _, fragment = where.name.partition("#")
        where = where.with_name(name)
    driver.get("about:blank")  # so that another fragment of the same page is loaded again
    driver.get(where.resolve().as_uri() + (f"#{fragment}" if fragment else ""))


def awaited(driver, selector):
    """An element, as soon as it is there."""
    found = expected_conditions.presence_of_element_located(("css selector", selector))
    return WebDriverWait(driver, WAIT_S, poll_frequency=0.02).until(found)


def complaints(driver):
    """Messages of the page in the console since ``show``, errors and others."""
    return [entry["message"] for entry in driver.get_log("browser")]


def is_dark(driver):
    """Return whether the page has a dark background."""
    colour = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    red, green, blue = map(int, re.findall(r"\d+", colour)[:3])
    return red + green + blue < 3 * 100


def too_wide(driver):
    """Elements cut at the right: the page itself, and boxes that cannot be scrolled.

    A box may scroll if it can be reached by keyboard and its style scrolls.
    """
    return driver.execute_script(
        """
        const found = [];
        const root = document.documentElement;
        if (root.scrollWidth > root.clientWidth)
          found.push(`page: ${root.scrollWidth} in ${root.clientWidth}`);
        for (const one of document.body.querySelectorAll("*")) {
          if (one.closest("svg") || one.scrollWidth <= one.clientWidth + 1 || !one.clientWidth)
            continue;
          const style = getComputedStyle(one);
          if (style.overflowX === "visible" || style.display === "inline") continue;
          const scrolls = /auto|scroll/.test(style.overflowX) && one.tabIndex >= 0;
          if (!scrolls && !(style.position === "absolute" && one.clientWidth <= 1))
            found.push(`${one.tagName}.${one.className}: ${one.scrollWidth} in ${one.clientWidth}`);
        }
        return found;
        """
    )


def overlapping(driver, selector="svg text"):
    """Pairs of labels in one drawing whose boxes overlap by more than a pixel each way."""
    return driver.execute_script(
        """
        const found = [];
        const drawings = new Map();
        for (const one of document.querySelectorAll(arguments[0])) {
          const box = one.getBoundingClientRect();
          if (!box.width || !box.height || !one.textContent.trim()) continue;
          const drawing = one.closest("svg");
          if (!drawings.has(drawing)) drawings.set(drawing, []);
          drawings.get(drawing).push([box, one.textContent.trim()]);
        }
        for (const labels of drawings.values())
          labels.forEach(([a, first], place) => {
            for (const [b, second] of labels.slice(place + 1)) {
              const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
              const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
              if (wide > 1 && high > 1) found.push(`${first} | ${second}`);
            }
          });
        return found;
        """,
        selector,
    )


def without_words(driver):
    """Pictures that say nothing to those who do not see them."""
    return driver.execute_script(
        """
        const named = (one) => {
          const by = one.getAttribute("aria-labelledby");
          const label = by ? document.getElementById(by)?.textContent : null;
          return (one.getAttribute("aria-label") || one.getAttribute("alt") || label || "").trim();
        };
        return [...document.querySelectorAll("svg, img, canvas")]
          .filter((one) => !one.closest("[aria-hidden=true]") && !named(one))
          .map((one) => one.outerHTML.slice(0, 120));
        """
    )


def keep_picture(driver, name):
    """Save a screenshot; return its path."""
    folder = Path(os.environ.get("PRECEDES_SCREENSHOTS") or ROOT / "build/screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{re.sub(r'[^A-Za-z0-9_.-]+', '-', name)}.png"
    driver.save_screenshot(str(path))
    return path

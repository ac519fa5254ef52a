"""The pages as a site: built without a warning, read from disk, without a network."""

import shutil
import time

import pytest

from tests.support.browser import SCHEMES, WAIT_S, WIDTHS, complaints, show
from tests.support.places import ROOT
from tools import site


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    out = tmp_path_factory.mktemp("built") / "site"
    assert site.build(ROOT, out) == []
    return out


def test_every_page_is_there_and_links_lead_to_files(built):
    for page in site.pages(ROOT):
        place = built / page.relative_to(ROOT)
        name = "index.html" if page.name == "README.md" else f"{page.stem}.html"
        assert place.with_name(name).is_file()
    assert (built / "examples/fifo_broadcast.py").is_file()
    assert (built / "docs/record/latency.svg").is_file()


def test_the_reference_is_made_of_docstrings(built):
    text = (built / "docs/api.html").read_text()
    for name in ("precedes.simulate", "precedes.Result.to_pandas", "precedes.live.Group.broadcast"):
        assert f'id="{name}"' in text
    assert "&gt;&gt;&gt; " in text, "examples are code"


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_pages_open_from_disk(built, browser, width, scheme):
    for page in ("index.html", "docs/results.html"):
        show(browser, built / page, width=width, scheme=scheme)
        wide = "return document.documentElement.scrollWidth - innerWidth"
        assert browser.execute_script(wide) <= 0
        shade = "return getComputedStyle(document.body).getPropertyValue('color-scheme')"
        assert browser.execute_script(shade) == scheme
        assert complaints(browser) == []


def test_the_search_works_without_a_server(built, browser):
    show(browser, built / "docs/protocols/vector.html")
    # The page ignores its keyboard until its index is read, so the key is pressed until then.
    press = """
        const query = document.querySelector("[data-md-component=search-query]");
        query.focus();
        query.value = "hypercube";
        query.dispatchEvent(new Event("keyup", {bubbles: true}));
        return [...document.querySelectorAll('.md-search-result__link')].map((a) => a.href);
        """
    end_s = time.monotonic() + WAIT_S
    while not (links := browser.execute_script(press)) and time.monotonic() < end_s:
        time.sleep(0.5)
    assert any(link.endswith("docs/protocols/vcube.html") for link in links)
    assert complaints(browser) == []


def test_what_is_planted_is_found(tmp_path):
    """A link and an anchor that lead nowhere, and a page that nobody finds."""
    root = tmp_path / "repository"
    site.stage(ROOT, root)
    with (root / "docs/sizing.md").open("a") as page:
        page.write("\n[gone](gone.md) [nowhere](live.md#nowhere)\n")
    (root / "docs/unlisted.md").write_text("# Unlisted\n")
    reported = "\n".join(site.build(root, tmp_path / "site"))
    assert "'docs/sizing.md' contains a link 'gone.md'" in reported
    assert "'docs/live.md' does not contain an anchor '#nowhere'" in reported
    assert "- docs/unlisted.md" in reported


@pytest.mark.parametrize(
    "text",
    [
        '<script src="https://unpkg.com/x"></script>',
        '<link rel="stylesheet" href="//fonts.example/css">',
        '<img srcset="https://example.org/a.png 2x">',
        "<style>@import 'https://example.org/a.css';</style>",
        '<p style="background: url(http://example.org/b.png)">',
    ],
)
def test_what_would_be_fetched_is_found(tmp_path, text):
    (tmp_path / "page.html").write_text(text)
    (found,) = site.loaded_from_afar(tmp_path)
    assert found.startswith("page.html loads ")


def test_links_that_a_reader_follows_are_no_loads(tmp_path):
    shutil.copy(ROOT / "tools/site.css", tmp_path)
    links = '<a href="https://example.org"></a><link rel="canonical" href="https://example.org">'
    (tmp_path / "page.html").write_text(f"{links}<img src='a.png'>")
    assert site.loaded_from_afar(tmp_path) == []

"""The diagram as a value of Python, in a frame as a notebook has it."""

import pytest

from precedes import UserError, simulate, view, viewer
from tests.support.browser import complaints, show
from tests.support.places import ROOT

CHAT = ROOT / "examples/chat.jsonl"


def test_it_is_shown_in_a_frame_that_reaches_nothing_outside(tmp_path, browser):
    """In the frame of a notebook the page complains of nothing and opens on the violation."""
    html = view(CHAT, height_px=500)._repr_html_()
    assert 'sandbox="allow-scripts"' in html
    assert "height: 500px" in html
    page = tmp_path / "notebook.html"
    page.write_text(f"<!DOCTYPE html><script>secret = 1</script>{html}", encoding="utf-8")
    show(browser, page)
    browser.switch_to.frame(browser.find_element("css selector", "iframe"))
    text = browser.execute_async_script(
        """
        const [done] = arguments, words = "node eve delivered answer before question";
        const look = () => document.body.innerText.includes(words)
          ? done(document.body.innerText) : setTimeout(look, 50);
        look();
        """
    )
    assert "violated" in text
    reach = "try { return parent.secret } catch (error) { return error.name }"
    assert browser.execute_script(reach) == "SecurityError"
    browser.switch_to.default_content()
    assert complaints(browser) == []


def test_what_is_saved_is_the_page(tmp_path):
    diagram = view(CHAT)
    diagram.save(tmp_path / "chat.html")
    assert (tmp_path / "chat.html").read_text(encoding="utf-8") == viewer.html(CHAT)
    assert repr(diagram).startswith("Diagram(")
    assert "violated: 1 of 4 deliveries out of causal order" in repr(diagram)
    with pytest.raises(UserError, match="is a directory"):
        diagram.save(tmp_path)


def test_arguments_are_those_of_the_command(tmp_path):
    for protocol in ("vector", "unordered"):
        path = tmp_path / f"{protocol}.parquet"
        simulate(protocol, nodes=3, messages=20, trace=path, tier="interpreted")
    first, second = tmp_path / "unordered.parquet", tmp_path / "vector.parquet"
    both = view(first, second, from_ms=10, to_ms=80.5, nodes=[0, 1])
    assert [trace["lanes"] for trace in both.page.traces] == [["0", "1"]] * 2
    assert both.page.opening.why == "asked for"
    first_head = both.page.traces[0]
    assert 10_000 <= first_head["begin_us"] <= first_head["end_us"] <= 80_500
    assert view(first, violation=2).page.opening.violation == 1
    for wrong, text in (
        ({"violation": 1, "around": "0:1"}, "choose one"),
        ({"height_px": 5}, "`height_px` is between"),
        ({"around": "nobody:7"}, "nobody:7"),
    ):
        with pytest.raises(UserError, match=text):
            view(first, **wrong)

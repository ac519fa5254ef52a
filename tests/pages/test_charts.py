"""Charts: points with places and words, labels apart, published differs from measured."""

import re
from xml.etree import ElementTree

import pytest

from precedes.pages import document
from precedes.pages.charts import Link, picture, svg
from precedes.pages.figures import Figure, Point, Series
from tests.support.browser import SCHEMES, WIDTHS, complaints, overlapping, show, without_words

SVG = "{http://www.w3.org/2000/svg}"


def line(label, points, kind="measured"):
    return Series(label, kind, tuple(Point(*point) for point in points))


def figure(*series, name="Figure 1", **changes):
    return Figure(name, "t", "nodes", "y", series, alt="words", **changes)


def parsed(chart):
    return ElementTree.fromstring(f'<svg xmlns="http://www.w3.org/2000/svg" {chart[5:]}')


def texts(chart):
    return [one.text for one in parsed(chart).iter(f"{SVG}text")]


def titles(chart):
    return [one.text for one in parsed(chart).iter(f"{SVG}title")][1:]


POWERS = [(2**k, 3.0 * k, 3.0 * k - 1, 3.0 * k + 1) for k in range(3, 11)]


@pytest.mark.parametrize("log", [False, True])
def test_nodes_are_ticks_where_they_were_measured(log):
    found = texts(svg(figure(line("a", POWERS), log_x=log), name="p"))
    measured = {str(2**k) for k in range(3, 11)}
    ticks = measured & set(found)
    assert ticks == measured if log else {"128", "256", "512", "1024"} <= ticks
    assert not [text for text in found if "\N{SUPERSCRIPT TWO}" in text]


def test_zero_has_a_place_of_its_own_below_a_logarithmic_axis():
    points = [(1, 0.0), (2, 10.0), (4, 1000.0)]
    places = {}
    for log in (False, True):
        chart = svg(figure(line("a", points), log_y=log), name="p")
        assert len(titles(chart)) == 3
        marks = [
            one.find(f"{SVG}path").get("d")
            for one in parsed(chart).iter(f"{SVG}g")
            if one.get("class") == "point"
        ]
        places[log] = [float(re.match(r"M[\d.]+ ([\d.]+)", mark)[1]) for mark in marks]
        assert texts(chart).count("0") == 1
    zero, ten, thousand = places[True]
    assert zero > ten + 20 > thousand
    lined = re.findall(r'<path d="M([\d. ]+)" fill="none" stroke-width="1.8"', chart)
    assert len(lined[0].split()) == 4  # the line goes through the two that are above 0


def test_a_line_that_is_0_throughout_is_still_drawn():
    chart = svg(figure(line("a", [(1, 0.0), (2, 0.0)]), log_y=True, log_x=True), name="p")
    assert len(titles(chart)) == 2


def test_a_mark_says_value_interval_note_and_command():
    series = Series("lossy", "measured", (Point(8, 2.5, 2.0, 3.0, "seeds 1 to 9 of load"),
                                          Point(16, 4.0, 4.0, 4.0)))  # fmt: skip
    links = {(0, 1): Link("#c7", "differs")}
    chart = svg(figure(series), name="p", command="precedes reproduce x", links=links)
    assert titles(chart) == [
        "lossy, nodes 8: 2.5 (2 to 3), seeds 1 to 9 of load; precedes reproduce x",
        "lossy, nodes 16: 4; differs; precedes reproduce x",  # an interval that is a point is none
    ]
    assert [one.get("href") for one in parsed(chart).iter(f"{SVG}a")] == ["#c7"]


def test_a_long_line_is_whole_and_has_few_marks():
    points = [(x, x % 7 + 1.0, x % 7 + 0.5, x % 7 + 2.0) for x in range(300)]
    chart = svg(figure(line("a", points)), name="p")
    assert 5 <= len(titles(chart)) <= 13
    longest = max((one.get("d") for one in parsed(chart).iter(f"{SVG}path")), key=len)
    assert longest.count(" ") >= 300


def test_what_is_measured_is_solid_and_print_is_dashed_and_named_once():
    pairs = [line("a", POWERS), line("b", POWERS)]
    printed = [line(one.label, [point[:2] for point in POWERS], "published") for one in pairs]
    chart = svg(figure(*pairs, *printed), name="p")
    assert texts(chart)[-3:] == ["a", "b", "published"]
    assert chart.count("stroke-dasharray") == 3
    assert chart.count('stroke="var(--series-2)"') == 3  # both lines, and the legend's
    alone = svg(figure(*pairs, line("a, published", POWERS[:2], "published")), name="p")
    assert texts(alone)[-3:] == ["a", "b", "a, published"]  # not published twice
    other = svg(figure(*pairs, line("print", POWERS[:2], "published")), name="p")
    assert texts(other)[-1] == "print, published"


def test_a_picture_stands_alone():
    text = picture(figure(line("a", POWERS), line("b", POWERS[:3], "published"), log_y=True))
    assert text == picture(
        figure(line("a", POWERS), line("b", POWERS[:3], "published"), log_y=True)
    )
    assert ElementTree.fromstring(text).tag == f"{SVG}svg"
    used = set(re.findall(r"var\((--[a-z0-9-]+)\)", text))
    assert "--series-1" in used
    assert all(text.count(f"{name}: #") == 2 for name in used)  # light and dark


CHARTS = [
    figure(line("a rather long name of a line", POWERS), line("b", POWERS), log_x=True),
    figure(line("a", [(5e5, 4.0), (1e6, 2.0), (2e6, 1.0), (6e6, 0.2)]), log_x=True, log_y=True),
    figure(line("a", [(x, 10.0**-x) for x in range(9)]), log_y=True),
    figure(line("a", [(x, 1e6 + x) for x in range(100)])),
    figure(line("a", [(500, 2.2), (1000, 6.8), (1010, 2.8), (5000, 5.8)])),
    figure(line("a", [(0, 0.0), (1, 0.001), (1000, 0.002)]), log_x=True, log_y=True),
    figure(line("a", [(1, -5.0), (2, 7.0)])),
    figure(line("a", [(3, 3.0)])),
]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_labels_keep_apart(tmp_path, browser, width, scheme):
    path = tmp_path / "page.html"
    charts = "".join(svg(one, name=f"c{number}") for number, one in enumerate(CHARTS))
    path.write_text(document(title="Charts", body=f"<figure>{charts}</figure>"), encoding="utf-8")
    show(browser, path, width=width, scheme=scheme)
    assert overlapping(browser) == []
    assert without_words(browser) == []
    assert complaints(browser) == []

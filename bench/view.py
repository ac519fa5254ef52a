"""Drawing speed of the viewer's page, compared with a canvas that draws every event as a box.

    python bench/view.py [--quick] [--json] [--record]

A page of 100,000 events of a simulated group in headless Chromium with software rendering: its
size, the time to the first picture, and the time of a redraw while the window is
panned, with all events in it, with a tenth of them, and with so few that each has its mark. Times
of a redraw are those of both canvases, until a pixel of each was read back: merely recorded
commands would not count. The peer draws a box for each event of the same arrays that is in the
window, on a canvas of the same size, in turns with it; it draws neither lanes nor words.
"""

import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import harness

NODES = 20
MESSAGES = 5_000  # times as many nodes are 100,000 events
SHARES = {"all events": 1.0, "a tenth": 0.1, "marks": 0.01}
FIRST_MS_MAX, REDRAW_MS_MAX, PAGE_BYTES_MAX = 1_000, 16, 3_000_000
OPENS = 5

# Pans back and forth; the peer draws after every eighth of them. The pan after a rest is not
# counted.
PAN = """
const [share, pans] = arguments;
const zoom = document.getElementById(share < 1 ? "zoom-in" : "fit");
const span = () => precedes.state.window[1] - precedes.state.window[0];
document.getElementById("fit").click();
const whole = span();
while (share < 1 && span() > whole * share) zoom.click();
const stage = document.querySelector(".stage canvas");
const canvas = document.createElement("canvas");
canvas.width = stage.width;
canvas.height = stage.height;
const context = canvas.getContext("2d");
const [time, lane] = precedes.arrays;
const lanes = 1 + lane.reduce((most, one) => Math.max(most, one), 0);
const boxes = () => {
  const begin = performance.now();
  const [from, to] = precedes.state.window;
  context.clearRect(0, 0, canvas.width, canvas.height);
  const high = canvas.height / lanes;
  for (let e = 0; e < time.length; e += 1) {
    if (time[e] < from || time[e] > to) continue;
    context.fillRect(((time[e] - from) / (to - from)) * canvas.width, lane[e] * high, 2, high - 2);
  }
  context.getImageData(0, 0, 1, 1);
  return performance.now() - begin;
};
const ours = [], theirs = [];
for (let k = 0; k <= pans; k += 1) {
  const step = k % 40 < 20 ? 0.01 : -0.01;
  ours.push(precedes.pan(step));
  if (k % 8 === 0) theirs.push(boxes());
}
const [shown] = precedes.state.stages;
const { detail, seenEvents: seen } = shown;
return { ours: ours.slice(1), theirs, detail, seen };
"""


def page(folder: Path, messages: int) -> Path:
    """The page of a simulated run."""
    from precedes.sim.runs import simulate
    from precedes.viewer import write_view

    trace, out = folder / "run.parquet", folder / "page.html"
    simulate("vector", nodes=NODES, messages=messages, rate=500, trace=trace)
    write_view(trace, out)
    return out


def measure(*, quick: bool = False) -> dict:
    """All of it; a smoke test has a tenth of the events and pans a little."""
    from tests.support.browser import complaints, show, start

    first_ms, report = [], {}
    with tempfile.TemporaryDirectory() as folder, start() as browser:
        path = page(Path(folder), MESSAGES // 10 if quick else MESSAGES)
        report["page_bytes"] = path.stat().st_size
        for _ in range(1 if quick else OPENS):
            show(browser, path, reduced_motion=True)
            while not browser.execute_script("return 'precedes' in window"):
                assert complaints(browser) == []
            first_ms.append(browser.execute_script("return precedes.firstPaintMs"))
        report["first_ms"] = statistics.median(first_ms)
        report["redraws"] = {}
        for name, share in SHARES.items():
            found = browser.execute_script(PAN, share, 40 if quick else 400)
            report["redraws"][name] = {
                "seen": found["seen"],
                "detail": found["detail"],
                "median_ms": statistics.median(found["ours"]),
                "p99_ms": statistics.quantiles(found["ours"], n=100)[-1],
                "boxes_median_ms": statistics.median(found["theirs"]),
            }
    return report


def ratios(report: dict) -> dict[str, float]:
    """The time of a redraw as a share of the peer's."""
    return {
        f"{name} / boxes": row["median_ms"] / row["boxes_median_ms"]
        for name, row in report["redraws"].items()
    }


def show(report: dict) -> None:
    """The same for people."""
    print(f"page {report['page_bytes']:,} bytes, first picture after {report['first_ms']:.0f} ms")
    print(f"{'panning over':12} {'events':>8} {'drawn as':8} {'median':>8} {'p99':>8} {'boxes':>8}")
    for name, row in report["redraws"].items():
        print(
            f"{name:12} {row['seen']:8,} {row['detail']:8} {row['median_ms']:5.1f} ms"
            f" {row['p99_ms']:5.1f} ms {row['boxes_median_ms']:5.1f} ms"
        )


def holds(report: dict) -> bool:
    """Return whether the page is within its limits of size and time."""
    return (
        report["page_bytes"] <= PAGE_BYTES_MAX
        and report["first_ms"] <= FIRST_MS_MAX
        and all(row["median_ms"] <= REDRAW_MS_MAX for row in report["redraws"].values())
    )


if __name__ == "__main__":
    harness.main(__file__, __doc__, measure=measure, show=show, ratios=ratios, holds=holds)

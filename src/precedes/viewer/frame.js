// What stands around the events: the axis, names of lanes, and how much goes on beyond the edges.
import { count, counted, tickWords } from "./words.js";
import { stepSize } from "./model.js";
import { AXIS_HEIGHT } from "./layout.js";
import { FONT, SMALL_FONT, laneColour } from "./surface.js";

/** Ticks and their labels, up to the available room. */
export function drawTicks({ surface, layout, theme, isTime, stage }) {
  const { step, values } = layout.ticks();
  const size = stepSize(stage.trace, isTime);
  const largest = Math.max(Math.abs(layout.from), Math.abs(layout.to));
  const words = size ? (value) => count(value / size) : tickWords(step, largest);
  for (const value of values) {
    if (size && !Number.isInteger(value / size)) continue;
    const x = surface.snap(layout.x(value)) + 0.5;
    surface.drawLine([x, AXIS_HEIGHT - 5, x, layout.height], { colour: theme.line, alpha: 0.7 });
    const text = words(value);
    const half = surface.measure(text, SMALL_FONT) / 2;
    if (x - half > Math.max(layout.gutter, stage.titleWidth) && x + half < layout.width - 2)
      surface.drawText(text, x, AXIS_HEIGHT / 2 - 1, { colour: theme.quiet, font: SMALL_FONT, align: "center" });
  }
}

/** Number of events of the lane left and right of the window. @returns {import("./scene.js").Box[]} */
export function drawEdges({ surface, layout, theme, trace, ranges }, lane, middle) {
  const [low, high] = ranges.get(lane);
  const before = low - trace.laneStart[lane];
  const after = trace.laneStart[lane + 1] - high;
  // Below the line where there is room, so that no event is hidden.
  const y = layout.rowHeight >= 48 ? middle + layout.rowHeight / 2 - 10 : middle;
  const boxes = [];
  const plate = (text, x, align) => {
    const width = surface.measure(text, SMALL_FONT) + 6;
    const left = align === "left" ? x : x - width;
    surface.drawRect(left, y - 8, width, 16, theme.paper);
    surface.drawText(text, left + 3, y + 0.5, { colour: theme.quiet, font: SMALL_FONT });
    boxes.push({ left, top: y - 8, width, height: 16 });
  };
  if (before) plate(`‹ ${count(before)}`, layout.gutter, "left");
  if (after) plate(`${count(after)} ›`, layout.width - (layout.scrollMax ? 5 : 0), "right");
  return boxes;
}

/** Names of lanes, each with the colour of what it broadcasts. */
export function drawGutter({ surface, layout, trace, theme }) {
  const { gutter } = layout;
  surface.drawRect(0, 0, gutter, layout.height, theme.paper);
  const draw = (row) => {
    const lane = layout.rows[row];
    const y = surface.snap(layout.rowY(row));
    const bottom = surface.snap(y + layout.rowHeight / 2) - 0.5;
    surface.drawLine([0, bottom, gutter, bottom], { colour: theme.line, alpha: 0.55 });
    if (row < layout.pinned) surface.drawRect(0, y - layout.rowHeight / 2, 3, layout.rowHeight, theme.link);
    surface.drawRect(8, y - 4, 4, 9, laneColour(theme, lane));
    const name = surface.shortened(trace.lanes[lane], gutter - 22);
    surface.drawText(name, 17, y + 1, { colour: theme.ink, font: FONT });
  };
  for (let row = 0; row < layout.fixed; row += 1) draw(row);
  surface.clip(0, layout.scrollTop, gutter, layout.height - layout.scrollTop);
  const [first, last] = layout.seen;
  for (let row = first; row < last; row += 1) draw(row);
  surface.unclip();
  const across = (y, colour) => surface.drawLine([0, y - 0.5, layout.width, y - 0.5], { colour });
  surface.drawLine([gutter - 0.5, 0, gutter - 0.5, layout.height], { colour: theme.line });
  across(AXIS_HEIGHT, theme.line);
  if (layout.fixed) across(layout.scrollTop, theme.link);
}

/** Lanes above and below what is seen, and how many events of the window are there. */
export function drawBeyond({ surface, layout, trace, theme }) {
  const [first, last] = layout.seen;
  const tell = (rows, isAbove) => {
    const whole = rows.filter((row) => layout.side(layout.rows[row]) === (isAbove ? -1 : 1));
    if (!whole.length) return;
    let events = 0;
    for (const row of whole) {
      const lane = layout.rows[row];
      events += trace.firstFrom(lane, layout.to) - trace.firstFrom(lane, layout.from);
    }
    const text = `${isAbove ? "▴" : "▾"} ${counted(whole.length, "node")}, ${counted(events, "event")}`;
    const y = isAbove ? layout.scrollTop + 10 : layout.height - 10;
    const style = { colour: theme.quiet, back: theme.paper, border: theme.line, align: "center" };
    surface.drawLabel(text, layout.gutter + layout.plotWidth / 2, y, style);
  };
  const rows = layout.rows.map((_, row) => row);
  tell(rows.slice(layout.fixed, first + 1), true);
  tell(rows.slice(Math.max(layout.fixed, last - 1)), false);
}

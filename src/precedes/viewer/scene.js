// The lower canvas: axis, lanes, and all events in the window. What is selected is on the upper one.
import { brief, count } from "./words.js";
import { BROADCAST, VIOLATION, WAIT_UNKNOWN } from "./model.js";
import { HAS_WAITED, IS_SENT, IS_VIOLATION, isDelivery } from "./model.js";
import { AXIS_HEIGHT } from "./layout.js";
import { SHAPE_OF, SMALL_FONT, TINY_FONT, laneColour } from "./surface.js";
import { drawBeyond, drawEdges, drawGutter, drawTicks } from "./frame.js";

const MARKS_MAX = 2600; // more events than this are drawn as bands
const EVENT_SPACE = 3; // pixels a lane needs for each of its events, or it is a band
const ARROWS_EVENTS_MAX = 120; // with more of them, or with a selection, only that has arrows
const ARROWS_MAX = 1500;
const COLUMNS = [3, 4, 6, 9, 12]; // widths of columns of a band, in pixels
const COLUMN_EVENTS = 4; // wanted in one
const VIOLATION_SPACE = 13;
const RUN_SPACE = 3; // events closer than this are a run
const RUN_EVENTS_MIN = 3;
const RUN_WIDTH_MIN = 14; // of its plate, which hides what is under it
const RUN_WIDTH_MAX = 44;

/**
 * @typedef {object} Stage a trace and where it is drawn
 * @property {import("./model.js").Trace} trace
 * @property {import("./layout.js").Layout} layout
 * @property {import("./surface.js").Surface} scene
 * @property {import("./surface.js").Surface} overlay
 * @property {string} detail what was drawn last: marks or bands
 * @property {number} runs how many runs were collapsed
 * @property {{mark: import("./model.js").Mark, x: number, y: number, width: number}[]} markBoxes
 */

/** @param {Stage} stage @param {ReturnType<import("./surface.js").readTheme>} theme @param {boolean} isTime */
export function drawScene(stage, theme, isTime) {
  const { scene: surface, layout, trace } = stage;
  surface.clear();
  surface.drawRect(0, 0, surface.width, surface.height, theme.paper);
  const ranges = new Map();
  let seen = 0;
  let densest = 0;
  for (const lane of layout.seenLanes) {
    const range = [trace.firstFrom(lane, layout.from), trace.firstFrom(lane, layout.to)];
    ranges.set(lane, range);
    seen += range[1] - range[0];
    densest = Math.max(densest, range[1] - range[0]);
  }
  const room = (layout.plotWidth / EVENT_SPACE) * Math.max(1, ranges.size);
  stage.detail = seen > MARKS_MAX || seen > room || densest > layout.plotWidth ? "bands" : "marks";
  stage.seenEvents = seen;
  stage.runs = 0;
  stage.markBoxes = [];
  stage.labelled = labelledAbove(stage);
  const pen = { stage, surface, layout, trace, theme, isTime, ranges };
  drawTicks(pen);
  inRows(pen, () => {
    if (stage.detail === "marks" && seen <= ARROWS_EVENTS_MAX && !stage.selected) drawFaintArrows(pen);
  });
  if (stage.detail === "bands") pen.bands = bandsOf(pen);
  inRows(pen, (rows) => drawRows(pen, rows));
  drawGutter(pen);
  drawBeyond(pen);
}

/** Broadcasts that have a label on the upper canvas, so they need none here. */
function labelledAbove({ trace, selected, shown }) {
  const path = shown >= 0 ? trace.head.violations[shown].path : [];
  const messages = selected ? [selected.message, ...selected.direct.messages] : [];
  return new Set([...path, ...messages.map((message) => trace.broadcastOf[message])]);
}

/** Once for pinned rows and once for those that scroll, each inside of its own box. */
function inRows({ surface, layout }, draw) {
  const [first, last] = layout.seen;
  const { gutter, scrollTop, fixed } = layout;
  const range = (from, to) => Array.from({ length: to - from }, (_, k) => from + k);
  if (fixed) {
    surface.clip(gutter, AXIS_HEIGHT, layout.plotWidth, scrollTop - AXIS_HEIGHT);
    draw(range(0, fixed));
    surface.unclip();
  }
  surface.clip(gutter, scrollTop, layout.plotWidth, layout.height - scrollTop);
  draw(range(first, last));
  surface.unclip();
}

function drawRows(pen, rows) {
  const { surface, layout, bands } = pen;
  if (bands) surface.beginColumns(surface.snap(layout.x(bands.first * bands.span)), bands.width, bands.columns);
  rows.forEach((row) => drawLane(pen, row));
  if (bands) {
    surface.endColumns();
    for (const [positions, middle] of bands.violations.splice(0)) drawViolations(pen, positions, middle);
  }
  for (const row of rows) {
    const middle = surface.snap(layout.rowY(row));
    drawMarks(pen, layout.rows[row], middle);
    drawEdges(pen, layout.rows[row], middle);
  }
}

function drawLane(pen, row) {
  const { surface, layout, theme, stage } = pen;
  const lane = layout.rows[row];
  const middle = surface.snap(layout.rowY(row));
  const bottom = surface.snap(middle + layout.rowHeight / 2) - 0.5;
  surface.drawLine([layout.gutter, bottom, layout.width, bottom], { colour: theme.line, alpha: 0.55 });
  const range = pen.ranges.get(lane);
  if (stage.detail === "bands") drawBand(pen, lane, middle, range);
  else {
    drawLifeline(pen, lane, middle);
    if (pen.isTime) drawWaits(pen, lane, middle, range);
    drawEvents(pen, lane, middle, range);
  }
}

/** Columns as wide as usually hold a few events: that depends on how far one is zoomed, not on where. */
function bandsOf({ layout, trace, stage }) {
  const scale = (layout.to - layout.from) / layout.plotWidth;
  const rate = (trace.events / Math.max(1, trace.lanes.length) / stage.extent) * scale; // a pixel
  const width = COLUMNS.find((one) => one * rate >= COLUMN_EVENTS) ?? COLUMNS.at(-1);
  const span = scale * width;
  const columns = Math.ceil(layout.plotWidth / width) + 2;
  const usual = Math.max(rate * width * 2.5, 4); // as high as the row
  return { width, span, first: Math.floor(layout.from / span), columns, usual, violations: [] };
}

/** The line of a lane, broken where the node was away: from a crash or a leave to when it is back. */
function drawLifeline({ surface, layout, theme, stage, isTime }, lane, middle) {
  const style = { colour: theme.quiet, alpha: 0.45 };
  let [from, isAway] = [layout.gutter, false];
  const draw = (to) => {
    const dash = isAway ? [1, 5] : [];
    if (to > from) surface.drawLine([from, middle + 0.5, to, middle + 0.5], { ...style, dash });
    from = Math.max(from, to);
  };
  for (const mark of stage.marksOf.get(lane) ?? []) {
    const isEnd = mark.kind === "crash" || mark.kind === "leave";
    if (!isEnd && mark.kind !== "recover" && mark.kind !== "join") continue;
    draw(Math.min(layout.width, layout.x(isTime ? mark.time : mark.position)));
    isAway = isEnd;
  }
  draw(layout.width);
}

/**
 * How much happened, column by column: all events, in a darker tone those that had waited, and below
 * them in the lane's colour where it broadcast. Columns keep their place on the axis while it moves.
 */
function drawBand({ surface, layout, trace, theme, bands }, lane, middle, [low, high]) {
  const { span, first, columns, usual } = bands;
  const all = new Uint32Array(columns);
  const waited = new Uint32Array(columns);
  const sent = new Uint8Array(columns);
  const violations = [];
  const { lanePosition, laneTraits } = trace;
  const begin = first * span;
  const scale = 1 / span;
  for (let i = low; i < high; i += 1) {
    const column = ((lanePosition[i] - begin) * scale) | 0;
    const traits = laneTraits[i];
    all[column] += 1;
    if (!traits) continue;
    if (traits & IS_SENT) sent[column] = 3;
    if (traits & HAS_WAITED) waited[column] += 1;
    if (traits & IS_VIOLATION) violations.push(lanePosition[i]);
  }
  const most = layout.rowHeight - 7;
  const height = (value) => (value ? Math.max(1, Math.round(most * Math.min(1, Math.sqrt(value / usual)))) : 0);
  const bottom = surface.snap(middle + layout.rowHeight / 2) - 4;
  surface.drawColumns(bottom, all.map(height), theme.quiet, 0.4);
  surface.drawColumns(bottom, waited.map(height), theme.quiet, 0.8);
  surface.drawColumns(bottom + 3, sent, laneColour(theme, lane));
  bands.violations.push([violations, middle]);
}

/** Bars below the line, from arrival to delivery; each event keeps its level. */
function drawWaits({ surface, layout, trace, theme }, lane, middle, [low, high]) {
  const levels = Math.max(1, Math.min(4, Math.floor((layout.rowHeight / 2 - 7) / 4)));
  const end = trace.laneStart[lane + 1];
  const until = layout.to + trace.laneWaitMax[lane];
  for (let i = low; i < end && trace.lanePosition[i] <= until; i += 1) {
    const event = trace.laneEvents[i];
    const wait = trace.wait[event];
    if (!wait || wait === WAIT_UNKNOWN || (i >= high && trace.time[event] - wait > layout.to)) continue;
    const from = Math.max(layout.gutter, layout.x(trace.time[event] - wait));
    const to = Math.min(layout.width, layout.x(trace.time[event]));
    const y = middle + 6 + (trace.place[event] % levels) * 4;
    const colour = laneColour(theme, trace.source[trace.message[event]]);
    surface.drawRect(surface.snap(from), y, Math.max(1, to - from), 2, colour, 0.6);
  }
}

function drawEvents(pen, lane, middle, [low, high]) {
  const { surface, layout, trace, theme, stage } = pen;
  const special = [];
  let nameEnd = -Infinity;
  for (let i = low; i < high; ) {
    const last = endOfRun(pen, i, high);
    if (last - i >= RUN_EVENTS_MIN) {
      drawRun(pen, middle, i, last);
      stage.runs += 1;
    } else
      for (let k = i; k < last; k += 1) {
        const event = trace.laneEvents[k];
        const kind = trace.kind[event];
        const colour = laneColour(theme, trace.source[trace.message[event]]);
        if (kind === VIOLATION) special.push(event);
        else surface.drawMark(SHAPE_OF[kind], colour, theme.paper, layout.x(trace.lanePosition[k]), middle);
        if (kind === BROADCAST) nameEnd = drawName(pen, event, middle, k, nameEnd, high);
      }
    for (let k = i; k < last && last - i >= RUN_EVENTS_MIN; k += 1)
      if (trace.kind[trace.laneEvents[k]] === VIOLATION) special.push(trace.laneEvents[k]);
    i = last;
  }
  drawViolations(pen, special.map((event) => trace.position[event]), middle);
}

/** One mark for those that would hide each other, with their number. */
function drawViolations({ surface, layout, theme }, positions, middle) {
  for (let first = 0; first < positions.length; ) {
    const x = layout.x(positions[first]);
    let last = first + 1;
    let space = VIOLATION_SPACE;
    let text = "";
    for (; last < positions.length && layout.x(positions[last]) - x < space; last += 1) {
      text = `×${count(last - first + 1)}`;
      space = VIOLATION_SPACE + surface.measure(text, TINY_FONT) + 3;
    }
    surface.drawMark("violation", theme.bad, theme.paper, x, middle);
    if (text) {
      surface.drawRect(x + 5, middle - 15, space - VIOLATION_SPACE, 11, theme.paper, 0.85);
      surface.drawText(text, x + 6, middle - 9, { colour: theme.bad, font: TINY_FONT });
    }
    first = last;
  }
}

/** Where the events end that are too close to each other to be told apart. */
function endOfRun({ layout, trace }, first, high) {
  const begin = layout.x(trace.lanePosition[first]);
  let last = first + 1;
  let before = begin;
  for (; last < high; last += 1) {
    const x = layout.x(trace.lanePosition[last]);
    const isUnder = last - first >= RUN_EVENTS_MIN && x - begin < RUN_WIDTH_MIN;
    if ((x - before >= RUN_SPACE && !isUnder) || x - begin > RUN_WIDTH_MAX) break;
    before = x;
  }
  return last - first >= RUN_EVENTS_MIN ? last : first + 1;
}

function drawRun({ surface, layout, trace, theme }, middle, first, last) {
  const text = count(last - first);
  const begin = layout.x(trace.lanePosition[first]);
  const end = layout.x(trace.lanePosition[last - 1]);
  const half = Math.max((end - begin) / 2 + 4, surface.measure(text, TINY_FONT) / 2 + 3);
  const from = surface.snap((begin + end) / 2 - half);
  const to = surface.snap((begin + end) / 2 + half);
  surface.drawRect(from, middle - 5, to - from, 11, theme.paper);
  surface.drawRect(from, middle - 5, to - from, 11, theme.quiet, 0.22);
  surface.drawFrame(from, middle - 5, to - from - 1, 10, { colour: theme.quiet });
  surface.drawText(text, (from + to) / 2, middle + 1, { colour: theme.ink, font: TINY_FONT, align: "center" });
}

/** The name of a broadcast, where it meets no other; where the last one ends. */
function drawName({ surface, layout, trace, theme, ranges, stage }, event, middle, index, nameEnd, high) {
  if (layout.rowHeight < 36 || stage.seenEvents > 40 * ranges.size || stage.labelled.has(event)) return nameEnd;
  const text = brief(trace.messageName(trace.message[event]));
  const x = layout.x(trace.position[event]) - 4;
  const width = surface.measure(text, SMALL_FONT);
  if (x < nameEnd || x < layout.gutter || x + width > layout.width) return nameEnd;
  surface.drawText(text, x, middle - 11, { colour: theme.quiet, font: SMALL_FONT });
  return x + width + 6;
}

function drawFaintArrows({ surface, layout, trace, theme, ranges, isTime }) {
  const byColour = new Map();
  let total = 0;
  const add = (event) => {
    const cause = trace.broadcastOf[trace.message[event]];
    if (cause < 0 || !isDelivery(trace.kind[event]) || total >= ARROWS_MAX) return;
    const y1 = layout.laneY(trace.lane[cause]);
    const y2 = layout.laneY(trace.lane[event]);
    if (y1 === null || y2 === null || trace.lane[cause] === trace.lane[event]) return;
    const colour = laneColour(theme, trace.source[trace.message[event]]);
    if (!byColour.has(colour)) byColour.set(colour, []);
    const came = isTime ? trace.arrival(event) : trace.position[event];
    byColour.get(colour).push(layout.x(trace.position[cause]), y1, layout.x(came), y2);
    total += 1;
  };
  for (const [low, high] of ranges.values())
    for (let i = low; i < high; i += 1) {
      const event = trace.laneEvents[i];
      if (trace.kind[event] !== BROADCAST) add(event);
      else
        for (const effect of trace.eventsOf(trace.message[event]))
          if (trace.position[effect] >= layout.to) add(effect);
    }
  for (const [colour, segments] of byColour) surface.drawLines(segments, { colour, alpha: 0.32 });
}

/** Crashes, joins and the like: a line across the row and a word, where there is room for it. */
function drawMarks({ surface, layout, theme, stage, isTime }, lane, middle) {
  const top = middle - layout.rowHeight / 2;
  const seen = (stage.marksOf.get(lane) ?? [])
    .map((mark) => ({ mark, x: surface.snap(layout.x(isTime ? mark.time : mark.position)) }))
    .filter(({ x }) => x > layout.gutter - 60 && x < layout.width);
  for (const { x } of seen) surface.drawRect(x - 1, top + 2, 2, layout.rowHeight - 5, theme.odd);
  let end = -Infinity;
  for (const { mark, x } of seen) {
    const width = surface.measure(mark.kind, SMALL_FONT) + 8;
    const isRoomy = x > end;
    if (isRoomy) {
      surface.drawRect(x, top + 2, width, 14, theme.odd);
      surface.drawText(mark.kind, x + 4, top + 9.5, { colour: theme.paper, font: SMALL_FONT });
      end = x + width + 2;
    }
    stage.markBoxes.push({ mark, x: x - 4, y: top, width: isRoomy ? width + 4 : 8 });
  }
}

// The lower canvas: axis, lanes, and all events in the window. What is selected is on the upper one.
//
// Events that would hide each other are a run, drawn as a strip of their density. Arrows are placed
// before labels, and a label stands only where it meets neither an arrow nor another label.
import { count } from "./words.js";
import { BROADCAST, VIOLATION, WAIT_UNKNOWN } from "./model.js";
import { HAS_WAITED, IS_SENT, isDelivery } from "./model.js";
import { AXIS_HEIGHT } from "./layout.js";
import { SHAPE_OF, SMALL_FONT, TINY_FONT, laneColour } from "./surface.js";
import { drawBeyond, drawEdges, drawGutter, drawTicks } from "./frame.js";

const ARROWS_MAX = 160; // more of them say nothing: only those of a selection are drawn
const RUN_SPACE = 8; // events closer than this are a run
const COLUMN_WIDTH = 4; // of a strip
const STRIP_HEIGHT = 18;
const STRIP_WIDTH_MIN = 28; // a shorter run is a plate with its number of events
const VIOLATION_SPACE = 13;
const LABEL_WIDTH = 210;
const LABEL_WIDTH_MIN = 72; // a shorter label says little, but is all that a narrow screen has room for
const LABEL_SHARE_MIN = 0.15; // of a narrow screen
export const ROOMY_ROW = 44; // rows as high as this have labels above and below the line

/**
 * @typedef {{x1: number, y1: number, x2: number, y2: number}} Arrow
 * @typedef {{left: number, top: number, width: number, height: number, text?: string, event?: number}} Box
 *
 * @typedef {object} Stage a trace and where it is drawn
 * @property {import("./model.js").Trace} trace
 * @property {import("./layout.js").Layout} layout
 * @property {import("./surface.js").Surface} scene
 * @property {import("./surface.js").Surface} overlay
 * @property {string} detail what was drawn last: marks, or bands if most events are in strips
 * @property {number} runs how many runs were drawn as strips
 * @property {Map<number, {singles: number[], runs: [number, number][]}>} parts what of each lane is drawn how
 * @property {{mark: import("./model.js").Mark, x: number, y: number, width: number}[]} markBoxes
 * @property {{arrows: Arrow[], labels: Box[]}} below what this canvas shows
 * @property {{arrows: Arrow[], labels: Box[]}} above what the upper one shows
 */

/** @param {Stage} stage @param {ReturnType<import("./surface.js").readTheme>} theme @param {boolean} isTime */
export function drawScene(stage, theme, isTime) {
  const { scene: surface, layout, trace } = stage;
  surface.clear();
  surface.drawRect(0, 0, surface.width, surface.height, theme.paper);
  const ranges = new Map();
  for (const lane of layout.seenLanes)
    ranges.set(lane, [trace.firstFrom(lane, layout.from), trace.firstFrom(lane, layout.to)]);
  const pen = { stage, surface, layout, trace, theme, isTime, ranges, boxes: [] };
  const parts = new Map([...ranges].map(([lane, range]) => [lane, partsOf(pen, range)]));
  const total = (sizeOf) => [...parts.values()].reduce((sum, part) => sum + sizeOf(part), 0);
  const alone = total(({ singles }) => singles.length);
  stage.seenEvents = alone + total(({ runs }) => runs.reduce((sum, [first, last]) => sum + last - first, 0));
  stage.runs = total(({ runs }) => runs.length);
  stage.detail = alone * 2 < stage.seenEvents ? "bands" : "marks";
  stage.markBoxes = [];
  stage.below = { arrows: stage.selected ? [] : arrowsOf(pen), labels: [] };
  pen.arrows = [...stage.above.arrows, ...stage.below.arrows];
  pen.parts = stage.parts = parts;
  drawTicks(pen);
  inRows(pen, () => {
    for (const { colour, ...arrow } of stage.below.arrows) surface.drawArrow(arrow, { colour, size: 1.25, alpha: 0.6 });
  });
  pen.strips = stripsOf(pen);
  inRows(pen, (rows) => drawRows(pen, rows));
  drawGutter(pen);
  drawBeyond(pen);
}

/** Parts of a range of events drawn as marks, and parts drawn as strips: pairs of places in `laneEvents`. */
function partsOf({ layout, trace }, [low, high]) {
  const [singles, runs] = [[], []];
  const x = (i) => layout.x(trace.lanePosition[i]);
  for (let i = low; i < high; ) {
    let last = i + 1;
    for (let before = x(i); last < high && x(last) - before < RUN_SPACE; last += 1) before = x(last);
    if (last - i > 1) runs.push([i, last]);
    else singles.push(i);
    i = last;
  }
  return { singles, runs };
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
  const { surface, layout, strips } = pen;
  const places = rows.map((row) => [layout.rows[row], surface.snap(layout.rowY(row))]);
  for (const [lane, middle] of places) drawLane(pen, lane, middle);
  surface.beginColumns(surface.snap(layout.x(strips.begin)), COLUMN_WIDTH, strips.columns);
  for (const [lane, middle] of places) drawStrips(pen, lane, middle);
  surface.endColumns();
  for (const [lane, middle] of places) {
    drawEvents(pen, lane, middle);
    drawMarks(pen, lane, middle);
    pen.boxes.push(...drawEdges(pen, lane, middle));
  }
  for (const [lane, middle] of places) drawLabels(pen, lane, middle);
}

function drawLane(pen, lane, middle) {
  const { surface, layout, theme } = pen;
  const bottom = surface.snap(middle + layout.rowHeight / 2) - 0.5;
  surface.drawLine([layout.gutter, bottom, layout.width, bottom], { colour: theme.line, alpha: 0.55 });
  drawLifeline(pen, lane, middle);
  if (pen.isTime) drawWaits(pen, lane, middle, pen.ranges.get(lane));
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
 * How much happens in the runs of each lane, column by column. Columns keep their place on the axis
 * while it moves; the highest is that of the densest on the screen.
 */
function stripsOf({ layout, trace, parts }) {
  const span = ((layout.to - layout.from) / layout.plotWidth) * COLUMN_WIDTH;
  const begin = Math.floor(layout.from / span) * span;
  const columns = Math.ceil(layout.plotWidth / COLUMN_WIDTH) + 2;
  const ofLane = new Map();
  let most = 1;
  for (const [lane, { runs }] of parts) {
    const long = runs.filter(([first, last]) => isStrip([first, last - 1].map((i) => layout.x(trace.lanePosition[i]))));
    if (!long.length) continue;
    const strip = { all: new Uint32Array(columns), waited: new Uint32Array(columns), sent: new Uint8Array(columns) };
    for (const [first, last] of long)
      for (let i = first; i < last; i += 1) {
        const column = ((trace.lanePosition[i] - begin) / span) | 0;
        const traits = trace.laneTraits[i];
        strip.all[column] += 1;
        if (traits & IS_SENT) strip.sent[column] = 3;
        if (traits & HAS_WAITED) strip.waited[column] += 1;
        if (strip.all[column] > most) most = strip.all[column];
      }
    ofLane.set(lane, strip);
  }
  return { begin, columns, most: 2 ** Math.ceil(Math.log2(most)), ofLane };
}

/** All events of its runs, in a darker tone those that had waited, and a line below where it broadcast. */
function drawStrips({ surface, layout, theme, parts, strips }, lane, middle) {
  const strip = strips.ofLane.get(lane);
  if (!strip) return;
  const most = Math.min(STRIP_HEIGHT, layout.rowHeight - 8);
  const height = (value) => (value ? Math.max(2, Math.round(most * Math.sqrt(value / strips.most))) : 0);
  const bottom = surface.snap(middle + most / 2);
  for (const [from, to] of runPlaces({ layout, lane, parts }).filter(isStrip))
    surface.drawRect(from, bottom - most, to - from, most + 3, theme.quiet, 0.14);
  surface.drawColumns(bottom, strip.all.map(height), theme.quiet, 0.45);
  surface.drawColumns(bottom, strip.waited.map(height), theme.quiet, 0.85);
  surface.drawColumns(bottom + 3, strip.sent, laneColour(theme, lane));
}

/** From where to where each run of a lane is on the axis, and how many events it has. */
function runPlaces({ layout, lane, parts }) {
  const x = (i) => layout.x(layout.trace.lanePosition[i]);
  return parts.get(lane).runs.map(([first, last]) => [x(first), x(last - 1), last - first]);
}

const isStrip = ([from, to]) => to - from >= STRIP_WIDTH_MIN;

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

function drawEvents(pen, lane, middle) {
  const { surface, layout, trace, theme, parts } = pen;
  const { singles, runs } = parts.get(lane);
  const special = [];
  for (const i of singles) {
    const event = trace.laneEvents[i];
    const colour = laneColour(theme, trace.source[trace.message[event]]);
    if (trace.kind[event] === VIOLATION) special.push(trace.lanePosition[i]);
    else surface.drawMark(SHAPE_OF[trace.kind[event]], colour, theme.paper, layout.x(trace.lanePosition[i]), middle);
  }
  for (const [first, last] of runs)
    for (let i = first; i < last; i += 1)
      if (trace.kind[trace.laneEvents[i]] === VIOLATION) special.push(trace.lanePosition[i]);
  for (const [from, to, size] of runPlaces({ layout, lane, parts })) {
    const text = count(size);
    const half = surface.measure(text, TINY_FONT) / 2 + 3;
    const at = (Math.max(from, layout.gutter) + Math.min(to, layout.width)) / 2;
    if (isStrip([from, to])) surface.drawRect(at - half, middle - 6, 2 * half, 12, theme.paper, 0.8);
    else drawPlate(pen, at, middle, Math.max(half, (to - from) / 2 + 4));
    surface.drawText(text, at, middle + 0.5, { colour: theme.ink, font: TINY_FONT, align: "center" });
  }
  drawViolations(pen, special.sort((a, b) => a - b), middle);
}

function drawPlate({ surface, theme }, at, middle, half) {
  const [from, to] = [surface.snap(at - half), surface.snap(at + half)];
  surface.drawRect(from, middle - 6, to - from, 12, theme.paper);
  surface.drawRect(from, middle - 6, to - from, 12, theme.quiet, 0.22);
  surface.drawFrame(from, middle - 6, to - from - 1, 11, { colour: theme.quiet });
}

/** One mark for those that would hide each other, with their number. */
function drawViolations({ surface, layout, theme, boxes }, positions, middle) {
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
      boxes.push({ left: x + 5, top: middle - 15, width: space, height: 11 });
    }
    first = last;
  }
}

/** Arrows to the events in the window and from them; none if there are too many to follow. */
function arrowsOf({ layout, trace, theme, ranges, isTime }) {
  const arrows = [];
  const add = (event) => {
    const cause = trace.broadcastOf[trace.message[event]];
    if (cause < 0 || !isDelivery(trace.kind[event]) || trace.lane[cause] === trace.lane[event]) return;
    const [y1, y2] = [layout.laneY(trace.lane[cause]), layout.laneY(trace.lane[event])];
    if (y1 === null || y2 === null) return;
    const colour = laneColour(theme, trace.source[trace.message[event]]);
    const came = isTime ? trace.arrival(event) : trace.position[event];
    arrows.push({ colour, ...shortened(layout.x(trace.position[cause]), y1, layout.x(came), y2) });
  };
  for (const [low, high] of ranges.values())
    for (let i = low; i < high && arrows.length <= ARROWS_MAX; i += 1) {
      const event = trace.laneEvents[i];
      (trace.edgesOf.get(event) ?? []).forEach(add);
      if (trace.kind[event] !== BROADCAST) add(event);
      else
        for (const effect of trace.eventsOf(trace.message[event]))
          if (trace.position[effect] >= layout.to) add(effect);
    }
  return arrows.length > ARROWS_MAX ? [] : arrows;
}

/** An arrow that ends short of a mark, so that its head is seen. @returns {Arrow} */
export function shortened(x1, y1, x2, y2, gap = 5) {
  const length = Math.hypot(x2 - x1, y2 - y1) || 1;
  return { x1, y1, x2: x2 - ((x2 - x1) / length) * gap, y2: y2 - ((y2 - y1) / length) * gap };
}

/** The texts of events, or the names of broadcasts, where there is room. */
function drawLabels(pen, lane, middle) {
  const { surface, layout, trace, theme, stage, parts, arrows, boxes } = pen;
  const { singles, runs } = parts.get(lane);
  const isRoomy = layout.rowHeight >= ROOMY_ROW;
  const hasBars = pen.isTime && trace.laneWaitMax[lane] > 0;
  const least = Math.min(LABEL_WIDTH_MIN, layout.plotWidth * LABEL_SHARE_MIN);
  const tops = isRoomy ? (hasBars ? [-24] : [-24, 9]) : [-8];
  const taken = [...boxes, ...stage.above.labels];
  const places = runPlaces({ layout, lane, parts });
  const ends = [...singles.map((i) => layout.x(trace.lanePosition[i])), ...places.map(([from]) => from)];
  ends.sort((a, b) => a - b);
  if (!singles.length && !runs.length) return;
  for (const i of singles) {
    const event = trace.laneEvents[i];
    const text = trace.labelOf(event);
    if (!text || stage.named.has(event)) continue;
    const x = layout.x(trace.lanePosition[i]);
    const left = isRoomy ? x - 4 : x + 7;
    const whole = Math.min(LABEL_WIDTH, Math.ceil(surface.measure(text, SMALL_FONT)));
    const next = isRoomy ? Infinity : (ends.find((end) => end > x) ?? Infinity) - 9;
    const right = Math.min(next, layout.width - 4);
    for (const top of tops) {
      const box = { left, top: middle + top, width: 0, height: 15, text, event };
      box.width = roomFor(box, Math.min(whole, right - left), taken, arrows);
      if (left < layout.gutter || box.width < Math.min(whole, least)) continue;
      const words = surface.shortened(text, box.width, SMALL_FONT);
      surface.drawText(words, left, box.top + 8, { colour: theme.ink, font: SMALL_FONT });
      taken.push(box);
      stage.below.labels.push(box);
      break;
    }
  }
}

/** Maximum width of a box that begins here: up to the first obstacle. */
function roomFor(box, width, taken, arrows) {
  let room = width;
  for (const other of taken) {
    const isBeside = box.top < other.top + other.height + 1 && other.top < box.top + box.height + 1;
    if (isBeside && other.left + other.width > box.left - 3) room = Math.min(room, other.left - 6 - box.left);
  }
  for (const arrow of arrows) {
    const span = spanAt(arrow, box.top - 1, box.top + box.height + 1);
    if (span && span[1] > box.left - 3) room = Math.min(room, span[0] - 3 - box.left);
  }
  return room;
}

/** From where to where on the axis an arrow is between two heights; null if it is nowhere there. */
export function spanAt({ x1, y1, x2, y2 }, top, bottom) {
  if (Math.max(y1, y2) < top || Math.min(y1, y2) > bottom) return null;
  const at = (y) => (y1 === y2 ? x1 : x1 + ((x2 - x1) * (y - y1)) / (y2 - y1));
  const held = (y) => Math.max(Math.min(y1, y2), Math.min(Math.max(y1, y2), y));
  const xs = y1 === y2 ? [x1, x2] : [at(held(top)), at(held(bottom))];
  return [Math.min(...xs), Math.max(...xs)];
}

/** Crashes, joins and the like: a line across the row and a word, where there is room for it. */
function drawMarks({ surface, layout, theme, stage, isTime, boxes }, lane, middle) {
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
    boxes.push({ left: x - 1, top, width: isRoomy ? width + 4 : 4, height: layout.rowHeight });
  }
}

// The upper canvas: the selection, its arrows and cone, the witness of a violation, focus and hover.
import { brief, count, counted, duration } from "./words.js";
import { BROADCAST, VIOLATION, WAIT_UNKNOWN, isDelivery, stepSize } from "./model.js";
import { coneSizes } from "./causality.js";
import { shortened, spanAt } from "./scene.js";
import { AXIS_HEIGHT } from "./layout.js";
import { BOLD_FONT, SHAPE_OF, SMALL_FONT, laneColour } from "./surface.js";

const FAN_EVENTS = 16; // with more deliveries, arrows of a message are thin
const FAR = 4; // as many times the length of a path

/**
 * @typedef {object} Selected what is selected in one trace
 * @property {number} message
 * @property {number} event the one that has the focus, or -1
 * @property {{messages: number[], isCut: boolean}} direct
 * @property {import("./causality.js").Cone} cone
 */

/**
 * @param {import("./scene.js").Stage & {selected: Selected | null, shown: number}} stage
 * @param {any} theme
 * @param {{isTime: boolean, isFull: boolean, hoverX: number | null, focusMark: object | null}} view
 */
export function drawOverlay(stage, theme, view) {
  const { overlay: surface, layout, trace } = stage;
  surface.clear();
  stage.above = { arrows: [], labels: [] };
  stage.named = new Set();
  const pen = { stage, surface, layout, trace, theme, view, ...stage.above, named: stage.named };
  surface.clip(layout.gutter, AXIS_HEIGHT, layout.plotWidth, layout.height - AXIS_HEIGHT);
  if (stage.selected && view.isFull) drawCone(pen);
  if (stage.selected && !view.isFull) drawDirect(pen);
  if (stage.selected) drawMessage(pen, stage.selected.message, 2);
  if (stage.shown >= 0) drawWitness(pen, trace.head.violations[stage.shown]);
  if (stage.selected) drawNames(pen);
  if (view.focusMark && view.focusMark.trace === trace) drawFocusMark(pen, view.focusMark.mark);
  if (stage.selected) drawElsewhere(pen);
  surface.unclip();
  if (view.hoverX !== null && view.hoverX > layout.gutter) drawHover(pen, view.hoverX);
  drawScrollbar(pen);
}

const point = ({ layout, trace }, event) => [layout.x(trace.position[event]), layout.laneY(trace.lane[event])];

function isOnScreen({ layout, trace }, event) {
  const at = trace.position[event];
  return at >= layout.from && at <= layout.to && layout.side(trace.lane[event]) === 0;
}

/** Events neither before nor after the message are dimmed; the borders are lines. */
function drawCone(pen) {
  const { surface, layout, trace, theme, stage } = pen;
  const { cone } = stage.selected;
  for (const lane of layout.seenLanes) {
    const y = layout.rowY(layout.rowOf[lane]) - layout.rowHeight / 2;
    const at = (place) => layout.x(trace.position[trace.eventAt(lane, place)]);
    const isEnd = cone.future[lane] >= trace.laneLength(lane);
    const past = cone.past[lane] ? at(cone.past[lane] - 1) + 7 : -Infinity;
    const future = isEnd ? Infinity : at(cone.future[lane]) - 7;
    const from = Math.max(layout.gutter, Math.min(past, layout.width));
    const to = Math.min(layout.width, future);
    const height = layout.rowHeight - 1;
    const fill = (left, right, colour, alpha) => {
      if (right > left) surface.drawRect(left, y, right - left, height, colour, alpha);
    };
    fill(from, to, theme.paper, 0.78);
    fill(layout.gutter, Math.min(past, layout.width), theme.new, 0.1);
    fill(Math.max(future, layout.gutter), layout.width, theme.good, 0.1);
    for (const [x, colour] of [[past, theme.new], [future, theme.good]])
      if (x > layout.gutter && x < layout.width) fill(surface.snap(x), surface.snap(x) + 2, colour, 1);
  }
  tellCone(pen);
}

/** Legend of the tints, size of the cone, and the place where its search stopped. */
function tellCone({ surface, layout, trace, theme, stage }) {
  const { cone } = stage.selected;
  const { past, future } = coneSizes(trace, cone);
  const least = cone.isDone && !cone.isCapped ? "" : "at least ";
  const stopped = cone.isCapped ? ` · stopped after ${count(cone.visited)} events` : "";
  const rest = cone.isDone ? stopped : " …";
  const texts = [`before it: ${least}${count(past)}`, `after it: ${least}${count(future)}${rest}`];
  const widths = texts.map((text) => surface.measure(text, SMALL_FONT) + 16);
  const isOneLine = widths[0] + widths[1] < layout.plotWidth;
  const style = { back: theme.paper, font: SMALL_FONT, inset: layout.gutter + 4 };
  const [x, y] = [layout.gutter + 6, layout.height - 12];
  surface.drawLabel(texts[0], x, isOneLine ? y : y - 20, { ...style, colour: theme.new });
  surface.drawLabel(texts[1], isOneLine ? x + widths[0] : x, y, { ...style, colour: theme.good });
}

/** Arrows of what comes right before: from its broadcast to where the sender delivered it. */
function drawDirect(pen) {
  const { surface, trace, theme, stage } = pen;
  const start = trace.broadcastOf[stage.selected.message];
  if (start < 0) return;
  for (const message of stage.selected.direct.messages) {
    const cause = trace.broadcastOf[message];
    const there = [...trace.eventsOf(message)].find((e) => trace.lane[e] === trace.lane[start] && e !== cause);
    const colour = laneColour(theme, trace.source[message]);
    if (cause >= 0 && there !== undefined) drawFlight(pen, cause, there, { colour, size: 1.5, dash: [5, 3] });
    const end = there ?? cause;
    const isThere = end >= 0 && trace.lane[end] === trace.lane[start];
    if (isThere) drawAlong(pen, end, start, { colour: theme.ink, size: 2 });
    if (cause >= 0) drawEvent(pen, cause);
    if (there !== undefined) drawEvent(pen, there);
  }
}

/** From a broadcast to an arrival, and a bar from there to the delivery. */
function drawFlight(pen, cause, effect, style) {
  const { surface, layout, trace, view } = pen;
  const [x1, y1] = point(pen, cause);
  const [x2, y2] = point(pen, effect);
  if (y1 === null || y2 === null) return;
  const wait = trace.wait[effect];
  const came = view.isTime && wait !== WAIT_UNKNOWN ? layout.x(trace.arrival(effect)) : x2;
  if (trace.lane[cause] !== trace.lane[effect]) {
    const arrow = shortened(x1, y1, came, y2, x2 - came > 5 ? 0 : 5);
    surface.drawArrow(arrow, style);
    pen.arrows.push(arrow);
  }
  const isSeen = layout.side(trace.lane[effect]) === 0;
  if (x2 - came > 1 && isSeen) surface.drawRect(came, y2 - 2, x2 - came, 4, style.colour, 0.85);
}

function drawAlong(pen, first, second, { colour, size }) {
  const { surface, layout, trace } = pen;
  if (layout.side(trace.lane[first]) !== 0) return;
  const [x1, y] = point(pen, first);
  const [x2] = point(pen, second);
  surface.drawLine([x1, y + 0.5, x2, y + 0.5], { colour, size });
}

/** Redraw a mark above the lines that end in it. */
function drawEvent(pen, one) {
  const { surface, trace, theme } = pen;
  const event = trace.ownerOf(one);
  if (!isOnScreen(pen, event)) return;
  const [x, y] = point(pen, event);
  const kind = trace.kind[event];
  const colour = kind === VIOLATION ? theme.bad : laneColour(theme, trace.source[trace.message[event]]);
  surface.drawMark(SHAPE_OF[kind], colour, theme.paper, x, y);
}

function drawMessage(pen, message, size) {
  const { surface, trace, theme, stage } = pen;
  const cause = trace.broadcastOf[message];
  const colour = laneColour(theme, trace.source[message]);
  const events = trace.eventsOf(message);
  const isFan = events.length > FAN_EVENTS;
  const style = isFan ? { colour, size: 1, alpha: 0.7 } : { colour, size };
  // Of a violation, the path is drawn; all arrows of a message in a large group would hide it.
  if (cause >= 0 && !(isFan && stage.shown >= 0))
    for (const event of events)
      if (event !== cause && isDelivery(trace.kind[event])) drawFlight(pen, cause, event, style);
  for (const event of events) {
    if (!isOnScreen(pen, event)) continue;
    drawEvent(pen, event);
    const [x, y] = point(pen, event);
    const isFocus = event === stage.selected.event;
    if (isFocus) surface.drawRing(x, y, 11, { colour: theme.link, size: 3 });
    else surface.drawRing(x, y, 8, { colour: theme.ink, size: 1.25 });
  }
}

/** Where a lane delivered what it lacked, after all; -1 if it never did. */
export function lateDelivery(trace, { lacked, lane, event }) {
  if (lacked === null || lacked === undefined) return -1;
  const isIt = (e) => trace.lane[e] === lane && isDelivery(trace.kind[e]) && e !== event;
  return trace.eventsOf(lacked).find(isIt) ?? -1;
}

/** Content of a frame around a violation: the path, and the late delivery unless it is far off. */
export function witnessEvents(trace, violation) {
  const { path, event, message } = violation;
  if (path.length < 2) return [event, ...trace.eventsOf(message)];
  const places = path.map((one) => trace.position[one]);
  const [low, high] = [Math.min(...places), Math.max(...places)];
  const late = lateDelivery(trace, violation);
  const isNear = late >= 0 && trace.position[late] - high <= (high - low) * FAR;
  return isNear ? [...path, late] : path;
}

/** From cause to effect, in a frame; and where what was lacked came at last. */
function drawWitness(pen, violation) {
  const { trace, theme } = pen;
  const { path } = violation;
  const style = { colour: theme.bad, size: 2.5 };
  const late = lateDelivery(trace, violation);
  const cause = late < 0 ? -1 : trace.broadcastOf[violation.lacked];
  const isLate = late >= 0;
  if (cause >= 0) drawFlight(pen, cause, late, { colour: theme.odd, size: 1.5, dash: [4, 4] });
  for (let k = 1; k < path.length; k += 1) {
    const [before, after] = [path[k - 1], path[k]];
    const isSame = trace.message[before] === trace.message[after];
    if (trace.lane[before] === trace.lane[after]) drawAlong(pen, before, after, style);
    // Not of one message: what stands between them is not on the page.
    else drawFlight(pen, before, after, isSame ? style : { ...style, dash: [2, 4] });
  }
  const isEarly = (violation.kind ?? "violation") === "violation";
  // Where it went wrong: at the end of the path, or where the message was not delivered.
  const there = trace.eventsOf(violation.message).find((event) => trace.lane[event] === violation.lane);
  const effect = isEarly ? path.at(-1) : (there ?? path.at(-1));
  drawWitnessFrame(pen, isEarly ? witnessEvents(trace, violation) : [...path, effect]);
  for (const event of [...path, effect, ...(isLate ? [late] : [])]) drawEvent(pen, event);
  const name = (event) => brief(trace.messageName(trace.message[event]));
  const fault = isEarly ? "delivered too early" : violation.kind;
  putLabel(pen, `! ${name(effect)} ${fault}`, effect, theme.bad, BOLD_FONT, true);
  for (const event of path) if (trace.kind[event] === BROADCAST) putLabel(pen, trace.labelOf(event), event, theme.bad);
  if (isLate) putLabel(pen, `${name(late)} only here`, late, theme.odd);
}

function drawWitnessFrame(pen, events) {
  const { surface, layout, theme } = pen;
  const points = events.map((event) => point(pen, event)).filter(([, y]) => y !== null);
  if (!points.length) return;
  const [xs, ys] = [points.map(([x]) => x), points.map(([, y]) => y)];
  const [left, top] = [Math.min(...xs) - 18, Math.min(...ys) - layout.rowHeight / 2 + 2];
  const [right, bottom] = [Math.max(...xs) + 18, Math.max(...ys) + layout.rowHeight / 2 - 2];
  surface.drawFrame(left, top, right - left, bottom - top, { colour: theme.bad, dash: [6, 4] });
}

/** A label near an event, above or below, where it meets no other one and no arrow. */
function putLabel(pen, whole, event, colour, font = SMALL_FONT, isOwed = false) {
  const { surface, layout, theme, labels, arrows } = pen;
  const text = surface.shortened(whole, Math.min(260, layout.plotWidth * 0.6), font);
  if (!isOnScreen(pen, event) || pen.named.has(event)) return;
  const [x, y] = point(pen, event);
  const width = Math.ceil(surface.measure(text, font)) + 10;
  const tries = [-21, 21, -40, 40, -59, 59].flatMap((dy) => [-8, 8 - width, 14, -14 - width].map((dx) => [dx, dy]));
  const clear = (box) => !arrows.some((arrow) => crosses(arrow, box));
  const rounds = isOwed ? [clear, () => true] : [clear];
  for (const [isFree, [dx, dy]] of rounds.flatMap((round) => tries.map((one) => [round, one]))) {
    const left = Math.max(layout.gutter + 2, Math.min(layout.width - width - 2, x + dx));
    const box = { left, top: y + dy - 9, width, height: 18 };
    if (box.top < AXIS_HEIGHT || box.top + 18 > layout.height) continue;
    if (labels.some((other) => meets(box, other)) || !isFree(box)) continue;
    labels.push({ ...surface.drawLabel(text, left, y + dy, { colour, back: theme.paper, font }), text, event });
    pen.named.add(event);
    return;
  }
}

function meets(a, b) {
  const isAcross = a.left < b.left + b.width + 2 && b.left < a.left + a.width + 2;
  return isAcross && a.top < b.top + b.height + 2 && b.top < a.top + a.height + 2;
}

function crosses(arrow, { left, top, width, height }) {
  const span = spanAt(arrow, top - 2, top + height + 2);
  return span !== null && span[0] < left + width + 2 && span[1] > left - 2;
}

function drawNames(pen) {
  const { layout, trace, theme, stage, view } = pen;
  const { message, direct } = stage.selected;
  const start = trace.broadcastOf[message];
  if (start >= 0) putLabel(pen, trace.labelOf(start), start, theme.ink, BOLD_FONT);
  if (trace.texts)
    for (const event of [...trace.eventsOf(message)].slice(0, 40)) {
      const owner = trace.ownerOf(event);
      if (trace.textOf(owner)) putLabel(pen, trace.labelOf(owner), owner, theme.ink);
    }
  const longest = [...trace.eventsOf(message)]
    .filter((e) => isDelivery(trace.kind[e]) && trace.wait[e] && trace.wait[e] !== WAIT_UNKNOWN)
    .sort((a, b) => trace.wait[b] - trace.wait[a])
    .slice(0, layout.rowHeight < 40 ? 2 : 4);
  for (const event of longest) putLabel(pen, `waited ${duration(trace.wait[event])}`, event, theme.quiet);
  if (view.isFull) return;
  for (const other of direct.messages.slice(0, 8)) {
    const cause = trace.broadcastOf[other];
    if (cause >= 0) putLabel(pen, trace.labelOf(cause), cause, theme.quiet);
  }
}

/** Number of events of the selected message beyond each edge. */
function drawElsewhere(pen) {
  const { surface, layout, trace, theme, stage } = pen;
  const beyond = { left: 0, right: 0, above: 0, below: 0 };
  for (const event of trace.eventsOf(stage.selected.message)) {
    const side = layout.side(trace.lane[event]);
    if (side === null) continue;
    if (trace.position[event] < layout.from) beyond.left += 1;
    else if (trace.position[event] > layout.to) beyond.right += 1;
    else if (side < 0) beyond.above += 1;
    else if (side > 0) beyond.below += 1;
  }
  stage.beyond = beyond;
  const name = brief(trace.messageName(stage.selected.message));
  const style = { colour: theme.link, back: theme.paper, font: BOLD_FONT, inset: layout.gutter + 2 };
  const middle = (layout.scrollTop + layout.height) / 2;
  const words = (n) => `${name}: ${count(n)}`;
  const [left, right] = [layout.gutter + 4, layout.width - 4];
  const bottom = layout.height - (pen.view.isFull ? 52 : 10); // above the text about the cone
  if (beyond.left) surface.drawLabel(`‹ ${words(beyond.left)}`, left, middle, style);
  if (beyond.right) surface.drawLabel(`${words(beyond.right)} ›`, right, middle, { ...style, align: "right" });
  if (beyond.above) surface.drawLabel(`▴ ${words(beyond.above)}`, left, layout.scrollTop + 10, style);
  if (beyond.below) surface.drawLabel(`▾ ${words(beyond.below)}`, left, bottom, style);
}

function drawFocusMark({ surface, layout, theme, view }, mark) {
  const y = layout.laneY(mark.lane);
  if (y === null) return;
  const x = layout.x(view.isTime ? mark.time : mark.position);
  const width = surface.measure(mark.kind, SMALL_FONT) + 14;
  surface.drawFrame(x - 4, y - layout.rowHeight / 2, width, layout.rowHeight - 2, { colour: theme.link, size: 3 });
  const below = y + layout.rowHeight / 2 + 10;
  surface.drawLabel(mark.text, x - 4, below, { colour: theme.link, back: theme.paper, inset: layout.gutter + 2 });
}

function drawHover({ surface, layout, trace, theme, view }, x) {
  const at = surface.snap(x) + 0.5;
  surface.drawLine([at, AXIS_HEIGHT, at, layout.height], { colour: theme.link, alpha: 0.5 });
  const value = layout.value(x);
  const size = stepSize(trace, view.isTime);
  const text = size ? counted(Math.round(value / size), "step") : duration(Math.round(value));
  const style = { colour: theme.link, back: theme.paper, align: "center", inset: layout.gutter };
  surface.drawLabel(text, x, AXIS_HEIGHT / 2, style);
}

function drawScrollbar({ surface, layout, theme }) {
  if (!layout.scrollMax) return;
  const room = layout.height - layout.scrollTop;
  const size = Math.max(24, (room * room) / (room + layout.scrollMax));
  const top = layout.scrollTop + (layout.scroll / layout.scrollMax) * (room - size);
  surface.drawRect(layout.width - 4, top, 3, size, theme.quiet, 0.6);
}

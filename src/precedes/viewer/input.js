// Pointers and keys.
import { eventWords, timeWords } from "./panel.js";
import { moveLane } from "./lanes.js";
import { changeLane, follow, nextMark, walk } from "./walks.js";

const NEAR = { mouse: 9, pen: 12, touch: 18 }; // pixels from an event that still hit it
const DRAG = 4;

const PANS = { a: [-0.25, 0], d: [0.25, 0], w: [0, -1], s: [0, 1] };
const sign = (key, back) => (key === back ? -1 : 1);

/**
 * Keys in the order of the help: which, how they are shown, what they do in words, and what is done.
 * @type {[string[], string, string, (viewer: import("./viewer.js").Viewer, key: string) => void][]}
 */
export const KEYS = [
  [["ArrowLeft", "ArrowRight"], "← →", "walk along the lane", (v, key) => walk(v, sign(key, "ArrowLeft"), 0)],
  [["ArrowUp", "ArrowDown"], "↑ ↓", "to the next lane", (v, key) => walk(v, 0, sign(key, "ArrowUp"))],
  [["[", "]"], "[ ]", "follow the message; in a violation, the witness", (v, key) => follow(v, sign(key, "["))],
  [["n", "p"], "n p", "next violation, and the one before", (v, key) => v.nextViolation(sign(key, "p"))],
  [["m", "M"], "m M", "next crash, join, view, …, and the one before", (v, key) => nextMark(v, sign(key, "M"))],
  [["c"], "c", "direct predecessors or the full cone", (v) => v.setFull(!v.isFull)],
  [["t"], "t", "axis: physical time or Lamport depth", (v) => v.setAxis(!v.isTime)],
  [["f"], "f", "fit everything", (v) => v.fit()],
  [["+", "=", "-"], "+ −", "zoom; also the wheel, or two fingers", (v, key) => v.zoom(1.5 ** -sign(key, "-"))],
  [["a", "d", "w", "s"], "a d w s", "pan left, right, up, down; also by dragging", (v, key) => v.pan(...PANS[key])],
  [["/"], "/", "find an event, a message or a node; Enter jumps there", () => document.getElementById("search").select()],
  [["h"], "h", "hide the lane; the list of nodes shows it again", (v) => changeLane(v, "hide")],
  [["k"], "k", "pin the lane to the top", (v) => changeLane(v, "pin")],
  [["u", "j"], "u j", "move the lane up, down; also by dragging its name", (v, key) => changeLane(v, sign(key, "u"))],
  [["Escape"], "Esc", "select nothing", (v) => v.clear()],
  [["?"], "?", "this help", () => document.getElementById("keys").showModal()],
];

/** @param {import("./viewer.js").Viewer} viewer */
export function listenToKeys(viewer) {
  document.addEventListener("keydown", (press) => {
    if (press.ctrlKey || press.metaKey || press.altKey) return;
    if (press.target.closest?.("input, dialog")) return;
    // In the panel, arrows scroll.
    if (press.key.startsWith("Arrow") && press.target.closest?.(".panel")) return;
    const found = KEYS.find(([keys]) => keys.includes(press.key));
    if (!found) return;
    const run = found[3];
    press.preventDefault();
    run(viewer, press.key);
  });
}

/** @param {import("./viewer.js").Viewer} viewer @param {import("./scene.js").Stage} stage @param {number} k */
export function listenToPointers(viewer, stage, k) {
  const { element: place, layout } = stage;
  /** @type {Map<number, {x: number, y: number}>} fingers and buttons that are down */
  const down = new Map();
  let drag = null;
  const at = (event) => {
    const box = place.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };
  place.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    document.getElementById("stages").focus({ preventScroll: true });
    place.setPointerCapture(event.pointerId);
    const point = at(event);
    down.set(event.pointerId, point);
    const isName = point.x < layout.gutter && event.pointerType === "mouse";
    drag = { ...point, isMoved: false, lane: isName ? layout.laneAt(point.y) : -1, spread: spreadOf(down) };
    hideTip();
  });
  place.addEventListener("pointermove", (event) => {
    const point = at(event);
    if (!down.has(event.pointerId)) return hover(viewer, stage, event, point);
    const before = down.get(event.pointerId);
    down.set(event.pointerId, point);
    if (down.size === 2) return pinch(viewer, layout, down, drag);
    if (!drag.isMoved && Math.hypot(point.x - drag.x, point.y - drag.y) < DRAG) return undefined;
    drag.isMoved = true;
    if (drag.lane >= 0) return carry(viewer, stage, drag.lane, point.y);
    viewer.scroll(before.y - point.y);
    return viewer.pan((before.x - point.x) / layout.plotWidth);
  });
  const up = (event) => {
    const isClick = down.size === 1 && drag && !drag.isMoved && event.type === "pointerup";
    down.delete(event.pointerId);
    if (drag) drag.isMoved ||= down.size > 0;
    if (isClick) click(viewer, stage, k, at(event), NEAR[event.pointerType] ?? NEAR.mouse);
  };
  place.addEventListener("pointerup", up);
  place.addEventListener("pointercancel", up);
  place.addEventListener("pointerleave", () => {
    hideTip();
    viewer.hoverX = null;
    viewer.redrawOverlay();
  });
  place.addEventListener("wheel", (event) => turn(viewer, layout, event, at(event)), { passive: false });
}

function spreadOf(down) {
  const [a, b] = [...down.values()];
  return b ? { size: Math.abs(a.x - b.x) + 20, middle: (a.x + b.x) / 2 } : null;
}

function pinch(viewer, layout, down, drag) {
  const now = spreadOf(down);
  const before = drag.spread ?? now;
  drag.spread = now;
  drag.isMoved = true;
  viewer.zoom(before.size / now.size, (now.middle - layout.gutter) / layout.plotWidth);
  viewer.pan((before.middle - now.middle) / layout.plotWidth);
}

/** A name that is dragged takes its lane along. */
function carry(viewer, stage, lane, y) {
  const other = stage.layout.laneAt(y);
  const { rowOf } = stage.layout;
  if (other < 0 || other === lane) return;
  if (!moveLane(viewer.lanes, stage.trace.lanes[lane], Math.sign(rowOf[other] - rowOf[lane]))) return;
  viewer.onLanes.forEach((tell) => tell());
  viewer.lanesChanged(`${stage.trace.lanes[lane]} moved`);
}

function turn(viewer, layout, event, { x }) {
  event.preventDefault();
  const size = event.deltaMode === 1 ? 16 : 1;
  const isAcross = Math.abs(event.deltaX) > Math.abs(event.deltaY) || event.shiftKey;
  if (isAcross) viewer.pan(((event.deltaX || event.deltaY) * size) / layout.plotWidth);
  else if (x < layout.gutter) viewer.scroll(event.deltaY * size);
  else {
    const power = event.deltaY * size * (event.ctrlKey ? 0.01 : 0.002); // a pinch of a touchpad is a small turn
    viewer.zoom(Math.exp(Math.max(-1, Math.min(1, power))), (x - layout.gutter) / layout.plotWidth);
  }
}

/** @returns {number} the event nearest to a point, or -1 */
export function eventNear(stage, { x, y }, near) {
  const { layout, trace } = stage;
  const lane = layout.laneAt(y);
  if (lane < 0 || x < layout.gutter) return -1;
  const isBeside = Math.abs(layout.laneY(lane) - y) > near + 8;
  if (isBeside) return -1;
  const low = trace.firstFrom(lane, layout.value(x - near));
  const high = trace.firstFrom(lane, layout.value(x + near));
  let [best, distance] = [-1, Infinity];
  for (let i = low; i < high; i += 1) {
    const away = Math.abs(layout.x(trace.lanePosition[i]) - x);
    // What breaks the order is drawn above the rest, and is hit before it.
    const rank = away - (trace.kind[trace.laneEvents[i]] === 3 ? near : 0);
    if (rank < distance) [best, distance] = [trace.laneEvents[i], rank];
  }
  return best;
}

function markAt(stage, { x, y }) {
  const isIn = (box) => x >= box.x && x <= box.x + box.width && y >= box.y && y <= box.y + 17;
  return stage.markBoxes.find(isIn)?.mark;
}

function click(viewer, stage, k, point, near) {
  const event = eventNear(stage, point, near);
  if (event >= 0) viewer.select(k, event, { isRevealed: false });
  else if (point.x > stage.layout.gutter) viewer.clear();
}

function hover(viewer, stage, event, point) {
  const { trace, layout } = stage;
  viewer.hoverX = point.x;
  viewer.redrawOverlay();
  const mark = markAt(stage, point);
  const found = mark ? -1 : eventNear(stage, point, NEAR.mouse);
  const lane = layout.laneAt(point.y);
  stage.element.style.cursor = found >= 0 ? "pointer" : point.x < layout.gutter && lane >= 0 ? "grab" : "default";
  const node = trace.lanes[mark?.lane ?? lane];
  if (mark) showTip(event, `${node}: ${mark.kind} at ${timeWords(trace, mark.time)}. ${mark.text}`);
  else if (found >= 0) showTip(event, eventWords(trace, found));
  else if (point.x < layout.gutter && lane >= 0) showTip(event, node);
  else hideTip();
}

function showTip(event, text) {
  const tip = document.getElementById("tip");
  tip.textContent = text;
  tip.hidden = false;
  const { offsetWidth: width, offsetHeight: height } = tip;
  tip.style.left = `${Math.max(4, Math.min(innerWidth - width - 4, event.clientX + 14))}px`;
  const below = event.clientY + 18;
  tip.style.top = `${below + height > innerHeight ? event.clientY - height - 10 : below}px`;
}

function hideTip() {
  document.getElementById("tip").hidden = true;
}

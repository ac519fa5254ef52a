// What is seen and selected, and everything that can be done to it.
import { depths, directPredecessors, emptyCone, growCone } from "./causality.js";
import { BROADCAST } from "./model.js";
import { pairMessages } from "./lockstep.js";
import { FONT, readTheme } from "./surface.js";
import { drawScene } from "./scene.js";
import { drawOverlay, witnessEvents } from "./overlay.js";
import { coneWords, eventWords, showPanel, showState } from "./panel.js";
import { laneSettings } from "./lanes.js";

const SLICE_MS = 6;
const MOVE_MS = 180;
const MARGIN = 0.02; // around what is fitted, as a share of it
const TIMES_KEPT = 1000;
const NAMES_MEASURED = 2000;

export class Viewer {
  /** @param {any} head @param {import("./scene.js").Stage[]} stages @param {{coneEvents: number}} limits */
  constructor(head, stages, limits) {
    this.head = head;
    this.stages = stages;
    this.traces = stages.map((stage) => stage.trace);
    this.limits = limits;
    this.theme = readTheme();
    this.lanes = laneSettings(this.traces);
    this.isTime = true;
    this.isFull = false;
    this.hoverX = null;
    /** @type {{trace: number, message: number, event: number} | null} */
    this.selection = null;
    /** @type {{trace: number, number: number} | null} */
    this.violation = null;
    this.focusMark = null;
    this.redrawMs = [];
    /** @type {[number, number] | null} where a move of the window ends */
    this.goal = null;
    this.run = 0;
    const [first, second] = this.traces;
    this.pairs = second ? [pairMessages(first, second), pairMessages(second, first)] : null;
    /** @type {(() => void)[]} called after lanes have changed from elsewhere */
    this.onLanes = [];
    this._setExtent();
  }

  // The window

  _setExtent() {
    for (const stage of this.stages) {
      const { trace } = stage;
      let last = trace.end;
      let first = trace.begin;
      if (!this.isTime) {
        first = 0;
        last = trace.depth.reduce((most, depth) => Math.max(most, depth), 0) + 1;
      }
      Object.assign(stage, { first, last, extent: Math.max(1, last - first) });
      this._placeMarks(stage);
    }
    const first = Math.min(...this.stages.map((stage) => stage.first));
    const last = Math.max(...this.stages.map((stage) => stage.last));
    const margin = Math.max(1, (last - first) * MARGIN);
    this.bounds = [first - margin, last + margin];
  }

  /** Marks have a time; on the other axis they stand between two events of their lane. */
  _placeMarks(stage) {
    const { trace } = stage;
    stage.marksOf = new Map();
    for (const mark of trace.marks) {
      if (!this.isTime) {
        const events = trace.laneEvents.subarray(trace.laneStart[mark.lane], trace.laneStart[mark.lane + 1]);
        const before = events.filter((event) => trace.time[event] <= mark.time).at(-1);
        mark.position = before === undefined ? 0.5 : trace.depth[before] + 0.5;
      }
      if (!stage.marksOf.has(mark.lane)) stage.marksOf.set(mark.lane, []);
      stage.marksOf.get(mark.lane).push(mark);
    }
  }

  /** @param {number} from @param {number} to */
  setWindow(from, to, { isSmooth = false } = {}) {
    const least = this.isTime ? 20 : 4;
    const span = Math.max(least, Math.min(to - from, (this.bounds[1] - this.bounds[0]) * 1.05));
    const middle = Math.max(this.bounds[0], Math.min(this.bounds[1], (from + to) / 2));
    const target = [middle - span / 2, middle + span / 2];
    const isStill = !isSmooth || matchMedia("(prefers-reduced-motion: reduce)").matches;
    this.goal = isStill ? null : target;
    if (isStill) this._show(...target);
    else this._moveTo(target);
  }

  _show(from, to) {
    for (const { layout } of this.stages) Object.assign(layout, { from, to });
    this.redraw();
  }

  _moveTo(target) {
    const [from, to] = this.window;
    const begin = performance.now();
    const step = (now) => {
      if (this.goal !== target) return;
      const share = Math.min(1, Math.max(0, (now - begin) / MOVE_MS));
      const eased = 1 - (1 - share) ** 3;
      if (share === 1) this.goal = null;
      this._show(from + (target[0] - from) * eased, to + (target[1] - to) * eased);
      if (share < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  /** The visible range. @returns {[number, number]} */
  get window() {
    const { from, to } = this.stages[0].layout;
    return [from, to];
  }

  /** Visible range at the end of the current move, where the next move starts. */
  get aim() {
    return this.goal ?? this.window;
  }

  fit() {
    this.setWindow(...this.bounds, { isSmooth: true });
    this.say("all events in the window");
  }

  /** @param {number} factor below 1 zooms in @param {number} [share] of the width that stays */
  zoom(factor, share = this._focusShare()) {
    const [from, to] = this.aim;
    const still = from + (to - from) * share;
    this.setWindow(still - (still - from) * factor, still + (to - still) * factor);
  }

  _focusShare() {
    if (!this.selection || this.selection.event < 0) return 0.5;
    const [from, to] = this.aim;
    const share = (this.traces[this.selection.trace].position[this.selection.event] - from) / (to - from);
    return share > 0 && share < 1 ? share : 0.5;
  }

  /** @param {number} share of the width @param {number} rows */
  pan(share, rows = 0) {
    const [from, to] = this.aim;
    if (share) this.setWindow(from + (to - from) * share, to + (to - from) * share);
    if (rows) this.scroll(rows * this.stages[0].layout.rowHeight);
  }

  scroll(pixels) {
    for (const { layout } of this.stages) layout.scrollTo(layout.scroll + pixels);
    this.redraw();
  }

  /** Bring events into the window, with their lanes; zoom out if they need it. */
  reveal(stage, events, { isFramed = false } = {}) {
    const { trace } = stage;
    const places = events.map((event) => trace.position[event]);
    const [low, high] = [Math.min(...places), Math.max(...places)];
    const [from, to] = this.aim;
    const framed = Math.max((high - low) * 1.6, this.isTime ? 200 : 8);
    const span = isFramed ? framed : Math.max(to - from, (high - low) * 1.2);
    const edge = (to - from) * 0.06;
    const isInside = low > from + edge && high < to - edge;
    const names = new Set(events.map((event) => trace.lanes[trace.lane[event]]));
    for (const { trace: other, layout } of this.stages)
      layout.reveal(layout.rows.filter((lane) => names.has(other.lanes[lane])));
    if (!isFramed && isInside) {
      this.redraw();
      return;
    }
    // Not beyond the ends: there is nothing to see.
    const begin = Math.max(this.bounds[0], Math.min(this.bounds[1] - span, (low + high - span) / 2));
    this.setWindow(begin, begin + span, { isSmooth: true });
  }

  setAxis(isTime) {
    if (isTime === this.isTime) return;
    const [from, to] = this.aim;
    const { trace } = this.stages[0];
    const before = trace.position;
    for (const one of this.traces) {
      one.depth ??= depths(one);
      one.setAxis(isTime ? one.time : one.depth);
    }
    this.isTime = isTime;
    this._setExtent();
    let [low, high] = [Infinity, -Infinity];
    for (let e = 0; e < trace.events; e += 1) {
      if (before[e] < from || before[e] > to) continue;
      low = Math.min(low, trace.position[e]);
      high = Math.max(high, trace.position[e]);
    }
    if (low > high) [low, high] = this.bounds;
    const margin = Math.max(1, (high - low) * MARGIN);
    this.setWindow(low - margin, high + margin);
    showState(this);
    this.say(isTime ? "axis: physical time" : "axis: Lamport depth");
  }

  // Drawing

  /** Apply a new size of the window or of lanes. */
  resize() {
    const ratio = window.devicePixelRatio || 1;
    for (const stage of this.stages) {
      const { clientWidth: width, clientHeight: height } = stage.element;
      stage.layout.arrange(this.lanes);
      const names = stage.layout.rows.map((lane) => stage.trace.lanes[lane]);
      const widths = names.slice(0, NAMES_MEASURED).map((name) => stage.scene.measure(name, FONT));
      const longest = Math.max(0, ...widths);
      stage.scene.resize(width, height, ratio);
      stage.overlay.resize(width, height, ratio);
      stage.layout.resize(width, height, longest);
    }
  }

  redraw() {
    this.isStale = true;
    this._ask();
  }

  redrawOverlay() {
    this._ask();
  }

  _ask() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => this.draw());
  }

  draw() {
    cancelAnimationFrame(this.asked ?? 0);
    this.asked = 0;
    const begin = performance.now();
    const { isStale } = this;
    for (const stage of this.stages) {
      drawOverlay(stage, this.theme, this); // first: what is below leaves room for its arrows and labels
      if (isStale) drawScene(stage, this.theme, this.isTime);
    }
    this.isStale = false;
    if (!isStale) return;
    if (this.redrawMs.length >= TIMES_KEPT) this.redrawMs.shift();
    this.redrawMs.push(performance.now() - begin);
  }

  setTheme() {
    this.theme = readTheme();
    for (const stage of this.stages) {
      stage.scene.forget();
      stage.overlay.forget();
    }
    this.isStale = true;
    this.draw();
  }

  // Selection

  /** @param {number} k of the trace @param {number} event */
  select(k, event, { isRevealed = true } = {}) {
    const trace = this.traces[k];
    const message = trace.message[event];
    this.focusMark = null;
    const isSame = this.selection?.trace === k && this.selection.message === message;
    this.selection = { trace: k, message, event };
    const isWitness = this.violation?.trace === k && this.violationNow.path.includes(event);
    if (this.violation && !isWitness && !isSame) this._leaveViolation();
    this.stages.forEach((stage, number) => this._selectIn(stage, number, isSame));
    if (!isSame) this._follow();
    if (isRevealed) this.reveal(this.stages[k], [event]);
    else this.redraw();
    this.showPanel();
    this.say(eventWords(trace, event));
  }

  _selectIn(stage, number, isSame) {
    const { trace: k, message, event } = this.selection;
    const { trace } = stage;
    const there = number === k ? message : this.pairs[k][message];
    if (there < 0) {
      stage.selected = null;
      return;
    }
    const known = isSame ? stage.selected : null;
    stage.selected = {
      message: there,
      event: number === k ? event : this._sameEvent(this.traces[k], event, trace, there),
      direct: known?.direct ?? directPredecessors(trace, there),
      cone: known?.cone ?? emptyCone(trace, there),
    };
  }

  /** The event of the other trace that is the same: of that message, in the lane of that name. */
  _sameEvent(trace, event, other, message) {
    const name = trace.lanes[trace.lane[event]];
    const isSent = trace.kind[event] === BROADCAST;
    const isIt = (e) => other.lanes[other.lane[e]] === name && (other.kind[e] === BROADCAST) === isSent;
    return other.eventsOf(message).find(isIt) ?? -1;
  }

  /** Cones of the selection, in slices: the page stays alive, and another selection ends it. */
  _follow() {
    this.run += 1;
    const turn = this.run;
    const chosen = this.stages.filter((stage) => stage.selected);
    const jobs = chosen.map(({ trace, selected }) => growCone(trace, selected.cone, this.limits.coneEvents));
    const work = () => {
      if (turn !== this.run) return;
      const until = performance.now() + SLICE_MS;
      while (jobs.length && performance.now() < until) if (jobs[0].next().done) jobs.shift();
      if (jobs.length) setTimeout(work, 0);
      else this.showPanel();
      if (this.isFull || !jobs.length) this.redrawOverlay();
    };
    work();
  }

  clear() {
    this.run += 1;
    this.selection = null;
    this.focusMark = null;
    this.stages.forEach((stage) => (stage.selected = null));
    this._leaveViolation();
    this.showPanel();
    this.redraw();
    this.say("nothing selected");
  }

  setFull(isFull) {
    this.isFull = isFull;
    showState(this);
    this.showPanel();
    this.redrawOverlay();
    const stage = this.selection && this.stages[this.selection.trace];
    const words = stage ? coneWords(stage.trace, stage.selected.cone) : "";
    this.say(isFull ? `full cone. ${words}` : "direct predecessors");
  }

  // Violations

  get violationNow() {
    return this.violation && this.traces[this.violation.trace].head.violations[this.violation.number];
  }

  get violations() {
    return this.traces.flatMap((trace, k) => trace.head.violations.map((_, number) => ({ trace: k, number })));
  }

  showViolation({ trace: k, number }, { isFramed = true } = {}) {
    this.violation = { trace: k, number };
    this.stages.forEach((stage, at) => (stage.shown = at === k ? number : -1));
    const { path, event, sentence } = this.violationNow;
    this.select(k, event >= 0 ? event : path.at(-1), { isRevealed: false });
    const { lane, lanes } = this.traces[k];
    this.unhide([...path, event].map((one) => lanes[lane[one]]));
    this.reveal(this.stages[k], witnessEvents(this.traces[k], this.violationNow), { isFramed });
    this.say(`violation ${number + 1}: ${sentence}`);
  }

  nextViolation(step) {
    const all = this.violations;
    if (!all.length) return this.say("no violations");
    const isNow = (one) => one.trace === this.violation?.trace && one.number === this.violation.number;
    const known = all.findIndex(isNow);
    const at = known >= 0 ? known + step : Math.min(step, 0); // none yet: the first, or the last
    return this.showViolation(all.at(at % all.length));
  }

  _leaveViolation() {
    this.violation = null;
    this.stages.forEach((stage) => (stage.shown = -1));
  }

  // Lanes

  /** Show the requested lanes, even hidden ones. @param {string[]} names */
  unhide(names) {
    const hidden = this.lanes.filter((one) => one.isHidden && names.includes(one.name));
    if (!hidden.length) return;
    hidden.forEach((one) => (one.isHidden = false));
    this.onLanes.forEach((tell) => tell());
    this.lanesChanged(`${names.join(", ")} shown again`);
  }

  lanesChanged(words) {
    this.resize();
    this.redraw();
    this.say(words);
  }

  // Words

  say(words) {
    document.getElementById("live").textContent = words;
  }

  showPanel() {
    showPanel(this);
  }
}

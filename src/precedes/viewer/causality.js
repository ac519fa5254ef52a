// What precedes what: depth, cones, direct predecessors, and what a delivery waited for.
//
// The past of an event is a prefix of every lane and its future a suffix, so a cone is two numbers
// a lane, whatever it holds.
import { BROADCAST, WAIT_UNKNOWN, isDelivery } from "./model.js";

const SLICE_EVENTS = 4096;
const NEAR_EVENTS_MAX = 20000; // looked at to tell direct predecessors from others
const CANDIDATES_MAX = 256;

/**
 * The length of the longest chain of events that ends in each: one more than the event before it in
 * the lane, and than the broadcast of what it delivers. A log that contradicts itself, with a message
 * that waits for itself, has those chains cut.
 * @param {import("./model.js").Trace} trace @returns {Float64Array}
 */
export function depths(trace) {
  const { lanes, laneStart, laneEvents } = trace;
  const events = laneEvents.length;
  const depth = new Float64Array(trace.events);
  const next = laneStart.slice(0, lanes.length);
  const last = new Float64Array(lanes.length);
  /** @type {Map<number, number[]>} lanes that wait for a broadcast */
  const blocked = new Map();
  const ready = lanes.map((_, lane) => lane).reverse();
  let done = 0;
  const run = (lane, isForced) => {
    let forced = isForced;
    while (next[lane] < laneStart[lane + 1]) {
      const event = laneEvents[next[lane]];
      const causes = trace.causesOf(event);
      const cause = causes.find((one) => !depth[one]) ?? -1;
      if (cause >= 0 && !forced) {
        if (!blocked.has(cause)) blocked.set(cause, []);
        blocked.get(cause).push(lane);
        return;
      }
      forced = false;
      last[lane] = Math.max(last[lane], ...causes.map((one) => depth[one])) + 1;
      for (const one of [event, ...(trace.edgesOf.get(event) ?? [])]) depth[one] = last[lane];
      next[lane] += 1;
      done += 1;
      const freed = blocked.get(event);
      if (freed) {
        ready.push(...freed);
        blocked.delete(event);
      }
    }
  };
  while (done < events) {
    while (ready.length) run(ready.pop(), false);
    if (done === events) break;
    const [cause, waiting] = blocked.entries().next().value;
    const lane = waiting.pop();
    if (!waiting.length) blocked.delete(cause);
    run(lane, true);
  }
  return depth;
}

/**
 * @typedef {object} Cone
 * @property {number} message
 * @property {Int32Array} past how many events of each lane precede the broadcast
 * @property {Int32Array} future from which place on each lane's events follow it
 * @property {number} visited
 * @property {boolean} isCapped more events than allowed: what is shown is true, but not all
 * @property {boolean} isDone
 */

/** @param {import("./model.js").Trace} trace @param {number} message @returns {Cone} */
export function emptyCone(trace, message) {
  const lengths = Int32Array.from(trace.lanes, (_, lane) => trace.laneLength(lane));
  const past = new Int32Array(lengths.length);
  return { message, past, future: lengths, visited: 0, isCapped: false, isDone: false };
}

/**
 * Fills a cone; yields now and then, so that the caller may draw in between.
 * @param {import("./model.js").Trace} trace @param {Cone} cone @param {number} most
 */
export function* growCone(trace, cone, most) {
  const start = trace.broadcastOf[cone.message];
  if (start >= 0) yield* growPast(trace, cone.past, [[trace.lane[start], trace.place[start]]], cone, most);
  const begins = start >= 0 ? [start] : [...trace.eventsOf(cone.message)].filter((e) => isDelivery(trace.kind[e]));
  yield* growFuture(trace, cone, begins, most);
  cone.isDone = true;
}

/** Nearest first, so that a cap leaves out what is far. `wanted`: lanes and how much of each. */
function* growPast(trace, past, wanted, tally, most, depthMin = 0) {
  const segments = [];
  const want = (lane, length) => {
    if (length <= past[lane]) return;
    segments.push([lane, length - 1, past[lane]]);
    past[lane] = length;
  };
  for (const [lane, length] of wanted) want(lane, length);
  for (let at = 0; at < segments.length; at += 1) {
    const [lane, high, low] = segments[at];
    segments[at] = undefined;
    for (let place = high; place >= low; place -= 1) {
      const event = trace.eventAt(lane, place);
      if (depthMin && trace.depth[event] < depthMin) break;
      if (tally.visited >= most) {
        tally.isCapped = true;
        return;
      }
      tally.visited += 1;
      if (tally.visited % SLICE_EVENTS === 0) yield;
      for (const cause of trace.causesOf(event)) want(trace.lane[cause], trace.place[cause] + 1);
    }
  }
}

function* growFuture(trace, cone, begins, most) {
  const segments = [];
  const want = (event) => {
    const lane = trace.lane[event];
    const place = trace.place[event];
    if (place >= cone.future[lane]) return;
    segments.push([lane, place, cone.future[lane]]);
    cone.future[lane] = place;
  };
  begins.forEach(want);
  let visited = 0;
  for (let at = 0; at < segments.length; at += 1) {
    const [lane, low, high] = segments[at];
    segments[at] = undefined;
    for (let place = low; place < high; place += 1) {
      if (visited >= most) {
        cone.isCapped = true;
        return;
      }
      visited += 1;
      cone.visited += 1;
      if (visited % SLICE_EVENTS === 0) yield;
      const event = trace.eventAt(lane, place);
      if (trace.kind[event] !== BROADCAST) continue;
      for (const effect of trace.eventsOf(trace.message[event]))
        if (isDelivery(trace.kind[effect])) want(effect);
    }
  }
}

/** Number of events in a cone, before and after the broadcast itself. */
export function coneSizes(trace, cone) {
  let past = 0;
  let future = 0;
  for (let lane = 0; lane < trace.lanes.length; lane += 1) {
    past += cone.past[lane];
    future += trace.laneLength(lane) - cone.future[lane];
  }
  return { past, future: Math.max(0, future - (trace.broadcastOf[cone.message] >= 0 ? 1 : 0)) };
}

/**
 * Messages that come right before one: what its sender delivered since its last broadcast, and that
 * broadcast, without those that others of them follow.
 * @param {import("./model.js").Trace} trace @param {number} message
 * @returns {{messages: number[], isCut: boolean}} in the order of the lane; cut: there were too many
 */
export function directPredecessors(trace, message) {
  const start = trace.broadcastOf[message];
  if (start < 0) return { messages: [], isCut: false };
  const lane = trace.lane[start];
  const found = (trace.edgesOf.get(start) ?? []).map((edge) => trace.message[edge]);
  let place = trace.place[start] - 1;
  for (; place >= 0 && found.length < CANDIDATES_MAX; place -= 1) {
    const event = trace.eventAt(lane, place);
    if (trace.kind[event] === BROADCAST || isDelivery(trace.kind[event])) found.push(trace.message[event]);
    if (trace.kind[event] === BROADCAST) break;
  }
  const isCut = found.length === CANDIDATES_MAX;
  const begins = [...new Set(found)].reverse();
  const known = begins.map((m) => trace.broadcastOf[m]).filter((event) => event >= 0);
  const covered = new Int32Array(trace.lanes.length);
  if (known.length > 1) {
    trace.depth ??= depths(trace);
    const depthMin = Math.min(...known.map((event) => trace.depth[event]));
    const wanted = known.map((event) => [trace.lane[event], trace.place[event]]);
    const tally = { visited: 0, isCapped: false };
    for (const _ of growPast(trace, covered, wanted, tally, NEAR_EVENTS_MAX, depthMin));
  }
  const isCovered = (m) => {
    const event = trace.broadcastOf[m];
    return event >= 0 && trace.place[event] < covered[trace.lane[event]];
  };
  return { messages: begins.filter((m) => !isCovered(m)), isCut };
}

/**
 * The message that a delivery waited for: the last one of its past that was delivered there while it
 * was pending.
 * @param {import("./model.js").Trace} trace @param {number} event @param {Cone} cone of its message
 * @returns {number} or -1
 */
export function waitedFor(trace, event, cone) {
  const wait = trace.wait[event];
  if (wait === WAIT_UNKNOWN || !wait || !isDelivery(trace.kind[event])) return -1;
  const lane = trace.lane[event];
  const since = trace.time[event] - wait - 1; // whole microseconds: the wait may be rounded
  for (let place = trace.place[event] - 1; place >= 0; place -= 1) {
    const other = trace.eventAt(lane, place);
    if (trace.time[other] < since) return -1;
    if (!isDelivery(trace.kind[other])) continue;
    const cause = trace.broadcastOf[trace.message[other]];
    if (cause >= 0 && trace.place[cause] < cone.past[trace.lane[cause]]) return trace.message[other];
  }
  return -1;
}

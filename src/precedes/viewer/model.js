// A trace as packed arrays, and the indexes that drawing and asking need.
import { brief } from "./words.js";

export const BROADCAST = 0;
export const DELIVERY = 1;
export const STRANDED = 2; // received and never delivered
export const VIOLATION = 3; // a delivery that breaks the order
export const DROPPED = 4;
export const EDGE = 5; // the next event of the lane follows this message directly: part of that event
export const WAIT_UNKNOWN = 0xffffffff;
export const LANE_UNKNOWN = 0xffff;
// What strips show of an event.
export const IS_SENT = 1;
export const HAS_WAITED = 2;
const STEP_US = 1000;
// What a text of a log often begins with, and what no label has room for: addresses, times, levels.
const LEADING = /^(?:\[[^\]]*\d[^\]]*\]\s+|(?:TRACE|DEBUG|INFO)\s+|[[(]?[\d./:,\-+TZ]*\d[\d./:,\-+TZ]*[\])]?\s+|[AP]M\s+)+(?=\S)/;
const EPOCH_US = 1e14; // later than this is a date: drawn from the first event on

/**
 * @typedef {object} Violation
 * @property {number} [number] among all that the audit found, from 1
 * @property {string} [kind] violation: delivered too early; or what else is wrong
 * @property {string} sentence
 * @property {number} lane
 * @property {number} message
 * @property {number | null} lacked what should have been delivered before
 * @property {number} event
 * @property {number[]} path events from cause to effect
 *
 * @typedef {object} Mark
 * @property {number} lane
 * @property {number} time_us
 * @property {string} kind
 * @property {string} text
 *
 * @typedef {object} TraceHead
 * @property {string} title
 * @property {string | null} protocol
 * @property {string[]} lanes
 * @property {boolean} has_time
 * @property {string | null} [time_note]
 * @property {number} begin_us
 * @property {number} end_us
 * @property {number} events rows of the arrays, edges included
 * @property {number} [edges]
 * @property {number} messages
 * @property {string[] | null} message_names
 * @property {{sentence: string} | null} left_out
 * @property {string} verdict
 * @property {string} summary
 * @property {Violation[]} violations
 * @property {number} [violations_more]
 * @property {number} [adjusted]
 * @property {Mark[]} marks
 */

/** Length of a step on the axis, by depth or of a log without times; 0 if the axis is time. */
export function stepSize(trace, isTime) {
  if (!isTime) return 1;
  return trace.head.has_time ? 0 : STEP_US;
}

/** Returns whether events of this kind carry the past of their message into the lane. */
export const isDelivery = (kind) => kind === DELIVERY || kind === VIOLATION || kind === EDGE;

/** @returns {any} what the page says of its traces */
export function readHead() {
  return JSON.parse(document.getElementById("precedes-head").textContent);
}

/** @returns {Promise<(string | null)[] | null>} the text of each event, if the log has any */
export async function readTexts(k) {
  const packed = document.getElementById(`precedes-texts-${k}`);
  return packed && JSON.parse(new TextDecoder().decode(await unpack(packed.textContent)));
}

/** @param {string} text base64 of gzip @returns {Promise<Uint8Array>} */
export async function unpack(text) {
  const bytes = fromBase64(text.trim());
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {string} text @returns {Uint8Array} */
function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const letters = atob(text);
  const bytes = new Uint8Array(letters.length);
  for (let at = 0; at < letters.length; at += 1) bytes[at] = letters.charCodeAt(at);
  return bytes;
}

export class Trace {
  /** @param {TraceHead} head @param {Uint8Array} bytes @param {(string | null)[] | null} texts */
  constructor(head, bytes, texts = null) {
    this.head = head;
    this.events = head.events;
    this.texts = texts;
    this.hasEdges = head.edges > 0;
    this.messages = head.messages;
    this.lanes = head.lanes;
    this.name = head.protocol || head.title;
    this._read(bytes);
    /** Without edges; one that breaks the order is drawn as an event. */
    this.eventCount = this.kind.reduce((total, kind) => total + (kind === EDGE ? 0 : 1), 0);
    this.origin = head.has_time && head.begin_us > EPOCH_US ? head.begin_us : 0;
    if (this.origin) for (let e = 0; e < this.events; e += 1) this.time[e] -= this.origin;
    this.begin = head.begin_us - this.origin;
    this.end = head.end_us - this.origin;
    this.marks = head.marks
      .map((mark) => ({ ...mark, time: mark.time_us - this.origin }))
      .sort((a, b) => a.time - b.time);
    this._indexLanes();
    this._indexMessages();
    /** @type {Map<number, number>} the number of a violation, by its event */
    this.violationAt = new Map(head.violations.map((violation, k) => [violation.event, k]));
    /** @type {Float64Array | null} */
    this.depth = null;
    this.setAxis(this.time);
  }

  /** The arrays stand back to back, so a later one may begin at an odd place. */
  _read(bytes) {
    const { events, messages } = this;
    let at = 0;
    const take = (Kind, length) => {
      const size = length * Kind.BYTES_PER_ELEMENT;
      const part = new Kind(bytes.slice(at, at + size).buffer);
      at += size;
      return part;
    };
    if (bytes.length !== events * 19 + messages * 6)
      throw new Error(`The page is damaged: ${bytes.length} bytes for ${events} events`);
    this.time = take(Float64Array, events);
    this.message = take(Uint32Array, events);
    this.wait = take(Uint32Array, events);
    this.lane = take(Uint16Array, events);
    this.kind = take(Uint8Array, events);
    this.source = take(Uint16Array, messages);
    this.sequence = take(Uint32Array, messages);
  }

  /** Events of a lane stand together in `laneEvents`, in its own order: its row begins at `laneStart`. */
  _indexLanes() {
    const lanes = this.lanes.length;
    this.laneStart = new Uint32Array(lanes + 1);
    const isOwn = (e) => this.kind[e] !== EDGE;
    for (let e = 0; e < this.events; e += 1) if (isOwn(e)) this.laneStart[this.lane[e] + 1] += 1;
    for (let l = 0; l < lanes; l += 1) this.laneStart[l + 1] += this.laneStart[l];
    const next = this.laneStart.slice(0, lanes);
    this.laneEvents = new Uint32Array(this.eventCount);
    this.place = new Uint32Array(this.events);
    this.laneWaitMax = new Float64Array(lanes);
    this.laneTraits = new Uint8Array(this.eventCount);
    /** @type {Map<number, number[]>} the edges of an event */
    this.edgesOf = new Map();
    let edges = [];
    this.hasWaits = false;
    for (let e = 0; e < this.events; e += 1) {
      const lane = this.lane[e];
      this.place[e] = next[lane] - this.laneStart[lane];
      if (!isOwn(e)) {
        edges.push(e);
        continue;
      }
      if (edges.length) this.edgesOf.set(e, edges);
      edges = [];
      this.hasWaits ||= this.wait[e] !== WAIT_UNKNOWN;
      const wait = this.wait[e] === WAIT_UNKNOWN ? 0 : this.wait[e];
      if (wait > this.laneWaitMax[lane]) this.laneWaitMax[lane] = wait;
      const kind = this.kind[e];
      this.laneEvents[next[lane]] = e;
      this.laneTraits[next[lane]] = (kind === BROADCAST ? IS_SENT : 0) | (wait ? HAS_WAITED : 0);
      next[lane] += 1;
    }
  }

  _indexMessages() {
    const { messages } = this;
    this.broadcastOf = new Int32Array(messages).fill(-1);
    this.messageStart = new Uint32Array(messages + 1);
    for (let e = 0; e < this.events; e += 1) {
      if (this.kind[e] === BROADCAST) this.broadcastOf[this.message[e]] = e;
      this.messageStart[this.message[e] + 1] += 1;
    }
    for (let m = 0; m < messages; m += 1) this.messageStart[m + 1] += this.messageStart[m];
    const next = this.messageStart.slice(0, messages);
    this.messageEvents = new Uint32Array(this.events);
    for (let e = 0; e < this.events; e += 1) this.messageEvents[next[this.message[e]]++] = e;
  }

  /** Positions along the axis by event, and row by row for searching. @param {Float64Array} positions */
  setAxis(positions) {
    this.position = positions;
    this.lanePosition = new Float64Array(this.eventCount);
    for (let i = 0; i < this.eventCount; i += 1) this.lanePosition[i] = positions[this.laneEvents[i]];
  }

  /** @param {number} lane @returns {number} */
  laneLength(lane) {
    return this.laneStart[lane + 1] - this.laneStart[lane];
  }

  /** @param {number} lane @param {number} place @returns {number} the event */
  eventAt(lane, place) {
    return this.laneEvents[this.laneStart[lane] + place];
  }

  /** The event itself, or of an edge that which it is part of. */
  ownerOf(event) {
    return this.kind[event] === EDGE ? this.eventAt(this.lane[event], this.place[event]) : event;
  }

  /** The broadcasts that an event follows directly, other than the event before it in its lane. */
  causesOf(event) {
    const into = isDelivery(this.kind[event]) ? [event] : (this.edgesOf.get(event) ?? []);
    return into.map((one) => this.broadcastOf[this.message[one]]).filter((cause) => cause >= 0);
  }

  /** Text of an event in the log, if any. @returns {string | null} */
  textOf(event) {
    return this.texts?.[this.ownerOf(event)] ?? null;
  }

  /** Name of an event in the diagram: its text, and the message of a broadcast. */
  labelOf(event) {
    const text = this.textOf(event)?.replace(LEADING, "") ?? null;
    if (this.kind[event] !== BROADCAST || (text && this.hasEdges)) return text;
    const name = brief(this.messageName(this.message[event]));
    return text ? `${name} · ${text}` : name;
  }

  /** The first index of `laneEvents` in this lane's row whose position is at least `value`. */
  firstFrom(lane, value) {
    let low = this.laneStart[lane];
    let high = this.laneStart[lane + 1];
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.lanePosition[middle] < value) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** @param {number} message @returns {Uint32Array} its events in the order of time */
  eventsOf(message) {
    return this.messageEvents.subarray(this.messageStart[message], this.messageStart[message + 1]);
  }

  /** @param {number} message @returns {string} */
  messageName(message) {
    if (this.head.message_names) return this.head.message_names[message];
    const source = this.source[message];
    const name = source === LANE_UNKNOWN ? "?" : this.lanes[source];
    return `${name}:${this.sequence[message]}`;
  }

  /** When a delivery's packet came, on the axis of time. */
  arrival(event) {
    const wait = this.wait[event];
    return wait === WAIT_UNKNOWN ? this.time[event] : this.time[event] - wait;
  }
}

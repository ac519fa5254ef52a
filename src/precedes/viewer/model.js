// A trace as packed arrays, and the indexes that drawing and asking need.

export const BROADCAST = 0;
export const DELIVERY = 1;
export const STRANDED = 2; // received and never delivered
export const VIOLATION = 3; // a delivery that breaks the order
export const DROPPED = 4;
export const WAIT_UNKNOWN = 0xffffffff;
export const LANE_UNKNOWN = 0xffff;
// What bands tell of an event, beside its place in the lane.
export const IS_SENT = 1;
export const HAS_WAITED = 2;
export const IS_VIOLATION = 4;
const STEP_US = 1000;
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
 * @property {number} begin_us
 * @property {number} end_us
 * @property {number} events
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

/** How long a step is on the axis, by depth or of a log without times; 0 if the axis is time. */
export function stepSize(trace, isTime) {
  if (!isTime) return 1;
  return trace.head.has_time ? 0 : STEP_US;
}

/** Whether events of this kind carry the past of their message into the lane. */
export const isDelivery = (kind) => kind === DELIVERY || kind === VIOLATION;

/** @returns {any} what the page says of its traces */
export function readHead() {
  return JSON.parse(document.getElementById("precedes-head").textContent);
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
  /** @param {TraceHead} head @param {Uint8Array} bytes */
  constructor(head, bytes) {
    this.head = head;
    this.events = head.events;
    this.messages = head.messages;
    this.lanes = head.lanes;
    this.name = head.protocol || head.title;
    this._read(bytes);
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
    for (let e = 0; e < this.events; e += 1) this.laneStart[this.lane[e] + 1] += 1;
    for (let l = 0; l < lanes; l += 1) this.laneStart[l + 1] += this.laneStart[l];
    const next = this.laneStart.slice(0, lanes);
    this.laneEvents = new Uint32Array(this.events);
    this.place = new Uint32Array(this.events);
    this.laneWaitMax = new Float64Array(lanes);
    this.laneTraits = new Uint8Array(this.events);
    for (let e = 0; e < this.events; e += 1) {
      const lane = this.lane[e];
      this.place[e] = next[lane] - this.laneStart[lane];
      const wait = this.wait[e] === WAIT_UNKNOWN ? 0 : this.wait[e];
      if (wait > this.laneWaitMax[lane]) this.laneWaitMax[lane] = wait;
      const kind = this.kind[e];
      this.laneEvents[next[lane]] = e;
      this.laneTraits[next[lane]] =
        (kind === BROADCAST ? IS_SENT : 0) | (wait ? HAS_WAITED : 0) | (kind === VIOLATION ? IS_VIOLATION : 0);
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
    this.lanePosition = new Float64Array(this.events);
    for (let i = 0; i < this.events; i += 1) this.lanePosition[i] = positions[this.laneEvents[i]];
  }

  /** @param {number} lane @returns {number} */
  laneLength(lane) {
    return this.laneStart[lane + 1] - this.laneStart[lane];
  }

  /** @param {number} lane @param {number} place @returns {number} the event */
  eventAt(lane, place) {
    return this.laneEvents[this.laneStart[lane] + place];
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

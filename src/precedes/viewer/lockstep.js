// Two traces of one scenario: which messages are the same, and where they differ.
import { WAIT_UNKNOWN, isDelivery } from "./model.js";

/**
 * The number that each message of one trace has in the other, by name; -1 if it is not there.
 * @param {import("./model.js").Trace} from @param {import("./model.js").Trace} to
 * @returns {Int32Array}
 */
export function pairMessages(from, to) {
  const numbers = new Map();
  for (let m = 0; m < to.messages; m += 1) numbers.set(to.messageName(m), m);
  return Int32Array.from({ length: from.messages }, (_, m) => numbers.get(from.messageName(m)) ?? -1);
}

/**
 * @typedef {object} Differences
 * @property {number} messages in both
 * @property {number[]} only messages in one of them, by trace
 * @property {number} deliveries in both
 * @property {number[]} longer deliveries that waited longer in this one than in the other
 * @property {number[]} missing deliveries that this one does not have
 * @property {number[]} waited microseconds in all, of deliveries in both whose waits are known
 */

/**
 * @param {import("./model.js").Trace} first @param {import("./model.js").Trace} second
 * @param {Int32Array} pairs @returns {Differences}
 */
export function differences(first, second, pairs) {
  const found = { messages: 0, only: [0, 0], deliveries: 0, longer: [0, 0], missing: [0, 0], waited: [0, 0] };
  const laneIn = new Map(second.lanes.map((name, lane) => [name, lane]));
  const laneOf = Int32Array.from(first.lanes, (name) => laneIn.get(name) ?? -1);
  for (let m = 0; m < first.messages; m += 1) {
    if (pairs[m] < 0) found.only[0] += 1;
    else {
      found.messages += 1;
      compareMessage(first, second, m, pairs[m], laneOf, found);
    }
  }
  found.only[1] = second.messages - found.messages;
  return found;
}

function compareMessage(first, second, m, other, laneOf, found) {
  const theirs = new Map();
  for (const event of second.eventsOf(other))
    if (isDelivery(second.kind[event])) theirs.set(second.lane[event], event);
  for (const event of first.eventsOf(m)) {
    if (!isDelivery(first.kind[event])) continue;
    const lane = laneOf[first.lane[event]];
    const peer = theirs.get(lane);
    if (peer === undefined) {
      found.missing[1] += 1;
      continue;
    }
    theirs.delete(lane);
    found.deliveries += 1;
    const [a, b] = [first.wait[event], second.wait[peer]];
    if (a === WAIT_UNKNOWN || b === WAIT_UNKNOWN) continue;
    found.waited[0] += a;
    found.waited[1] += b;
    if (a !== b) found.longer[a > b ? 0 : 1] += 1;
  }
  found.missing[0] += theirs.size;
}

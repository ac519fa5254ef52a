// Numbers and lists as people write them.

// Made once: a format for each number would cost more than drawing it.
const NUMBERS = new Intl.NumberFormat("en");

/** @param {number} value @returns {string} 12,345 */
export const count = (value) => NUMBERS.format(value);

/** @param {number} value @param {string} one @param {string} [many] @returns {string} */
export const counted = (value, one, many = `${one}s`) => `${count(value)} ${value === 1 ? one : many}`;

/**
 * A duration with a unit that suits it.
 * @param {number} us @returns {string}
 */
export function duration(us) {
  const size = Math.abs(us);
  if (size === 0) return "0 ms";
  if (size < 1000) return `${trimmed(us, size < 10 ? 1 : 0)} µs`;
  if (size < 1e5) return `${trimmed(us / 1e3, 1)} ms`;
  if (size < 1e7) return `${count(Math.round(us / 1e3))} ms`;
  return `${trimmed(us / 1e6, 1)} s`;
}

/** @param {number} value @param {number} digits @returns {string} */
function trimmed(value, digits) {
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/**
 * A long name without its middle: its end tells messages of one node apart.
 * @param {string} text @param {number} [most] @returns {string}
 */
export function brief(text, most = 18) {
  return text.length <= most ? text : `${text.slice(0, most - 9)}…${text.slice(-8)}`;
}

/**
 * A, B and C; of more than `most`, how many there are besides.
 * @param {string[]} items @param {number} [most] @returns {string}
 */
export function listed(items, most = 12) {
  const shown = items.length > most ? items.slice(0, most - 1) : items;
  const rest = items.length - shown.length;
  const all = rest ? [...shown, `${count(rest)} more`] : shown;
  if (all.length < 2) return all.join("");
  return `${all.slice(0, -1).join(", ")} and ${all.at(-1)}`;
}

/**
 * Labels of ticks: all of an axis have one unit, and as many digits as tell them apart.
 * @param {number} step in us @param {number} largest in us
 * @returns {(us: number) => string}
 */
export function tickWords(step, largest) {
  const [unit, size] = largest >= 1e7 ? ["s", 1e6] : largest >= 1e4 || step >= 1e3 ? ["ms", 1e3] : ["µs", 1];
  const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / size) - 1e-9)));
  const format = new Intl.NumberFormat("en", { minimumFractionDigits: digits, maximumFractionDigits: digits });
  return (us) => `${format.format(us / size + 0)} ${unit}`;
}

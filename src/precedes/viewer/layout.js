// Where things are: rows of lanes, the window on the axis, ticks.

export const AXIS_HEIGHT = 26;
const ROW_MIN = 20;
const ROW_MAX = 110;
const TICK_SPACE = 96;
const NARROW = 560;

/**
 * @typedef {object} LaneSetting
 * @property {string} name
 * @property {boolean} isHidden
 * @property {boolean} isPinned
 */

export class Layout {
  /** @param {import("./model.js").Trace} trace */
  constructor(trace) {
    this.trace = trace;
    this.width = 0;
    this.height = 0;
    this.gutter = 80;
    this.scroll = 0;
    this.from = 0;
    this.to = 1;
    /** @type {number[]} lanes from top to bottom, pinned ones first */
    this.rows = [];
    this.pinned = 0;
    /** @type {Int32Array} the row of each lane, -1 if it is hidden */
    this.rowOf = new Int32Array(trace.lanes.length).fill(-1);
  }

  /** @param {LaneSetting[]} settings in the order of rows */
  arrange(settings) {
    const lanes = new Map(this.trace.lanes.map((name, lane) => [name, lane]));
    const shown = settings.filter((one) => !one.isHidden && lanes.has(one.name));
    const pinned = shown.filter((one) => one.isPinned);
    this.pinned = pinned.length;
    this.rows = [...pinned, ...shown.filter((one) => !one.isPinned)].map((one) => lanes.get(one.name));
    this.rowOf.fill(-1);
    this.rows.forEach((lane, row) => (this.rowOf[lane] = row));
  }

  /** @param {number} width @param {number} height @param {number} nameWidth of the longest name */
  resize(width, height, nameWidth) {
    this.width = width;
    this.height = height;
    const most = width < NARROW ? 84 : 168;
    this.gutter = Math.ceil(Math.min(most, Math.max(44, nameWidth + 24)));
    const room = height - AXIS_HEIGHT;
    this.rowHeight = Math.max(ROW_MIN, Math.min(ROW_MAX, Math.floor(room / Math.max(1, this.rows.length))));
    // Pinned rows leave room for others.
    const most_pinned = Math.floor((room * 0.6) / this.rowHeight);
    this.fixed = Math.min(this.pinned, most_pinned);
    this.scrollTo(this.scroll);
  }

  get plotWidth() {
    return Math.max(1, this.width - this.gutter);
  }

  /** Where rows that scroll begin. */
  get scrollTop() {
    return AXIS_HEIGHT + this.fixed * this.rowHeight;
  }

  get scrollMax() {
    return Math.max(0, this.scrollTop + (this.rows.length - this.fixed) * this.rowHeight - this.height);
  }

  scrollTo(scroll) {
    this.scroll = Math.max(0, Math.min(this.scrollMax, scroll));
  }

  /** @param {number} value on the axis @returns {number} */
  x(value) {
    return this.gutter + ((value - this.from) / (this.to - this.from)) * this.plotWidth;
  }

  /** @param {number} x @returns {number} */
  value(x) {
    return this.from + ((x - this.gutter) / this.plotWidth) * (this.to - this.from);
  }

  /** The middle of a row, wherever it is. */
  rowY(row) {
    const y = AXIS_HEIGHT + (row + 0.5) * this.rowHeight;
    return row < this.fixed ? y : y - this.scroll;
  }

  /** The middle of a lane's row, held at the edge if it is above or below; null if it is hidden. */
  laneY(lane) {
    const row = this.rowOf[lane];
    if (row < 0) return null;
    const y = this.rowY(row);
    if (row < this.fixed) return y;
    return Math.max(this.scrollTop, Math.min(this.height, y));
  }

  /** -1 above what is seen, 1 below, 0 on the screen, null if hidden. */
  side(lane) {
    const row = this.rowOf[lane];
    if (row < 0) return null;
    if (row < this.fixed) return 0;
    const y = this.rowY(row);
    return y < this.scrollTop ? -1 : y > this.height ? 1 : 0;
  }

  /** Rows that scroll and are on the screen, as a half-open range. */
  get seen() {
    const first = this.fixed + Math.floor(this.scroll / this.rowHeight);
    const room = Math.max(0, this.height - this.scrollTop);
    const last = Math.min(this.rows.length, this.fixed + Math.ceil((this.scroll + room) / this.rowHeight));
    return [first, Math.max(first, last)];
  }

  /** Lanes on the screen. */
  get seenLanes() {
    const [first, last] = this.seen;
    return [...this.rows.slice(0, this.fixed), ...this.rows.slice(first, last)];
  }

  /** @param {number} y @returns {number} the lane there, or -1 */
  laneAt(y) {
    if (y < AXIS_HEIGHT) return -1;
    const isFixed = y < this.scrollTop;
    const row = Math.floor((y - AXIS_HEIGHT + (isFixed ? 0 : this.scroll)) / this.rowHeight);
    return row < this.rows.length ? this.rows[row] : -1;
  }

  /** Scroll as little as shows these lanes, the first of them if not all have room. */
  reveal(lanes) {
    const rows = lanes.map((lane) => this.rowOf[lane]).filter((row) => row >= this.fixed);
    if (!rows.length) return;
    const top = (Math.min(...rows) - this.fixed) * this.rowHeight;
    const bottom = (Math.max(...rows) + 1 - this.fixed) * this.rowHeight;
    const room = this.height - this.scrollTop;
    let { scroll } = this;
    if (bottom > scroll + room) scroll = bottom - room;
    if (top < scroll) scroll = top;
    this.scrollTo(scroll);
  }

  /** @returns {{step: number, values: number[]}} round values with room for their labels */
  ticks() {
    const wanted = ((this.to - this.from) / this.plotWidth) * TICK_SPACE;
    const power = 10 ** Math.floor(Math.log10(wanted));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((value) => value >= wanted);
    const values = [];
    for (let k = Math.ceil(this.from / step); k * step <= this.to; k += 1) values.push(k * step + 0); // never -0
    return { step, values };
  }
}

// The one module that talks to a canvas. All sizes are CSS pixels; lines and marks are set on whole
// pixels of the screen, so that they are crisp at any ratio.

export const FONT = "12px system-ui, sans-serif";
export const SMALL_FONT = "11px system-ui, sans-serif";
export const TINY_FONT = "10px system-ui, sans-serif";
export const BOLD_FONT = "600 12px system-ui, sans-serif";
const MARK_SIZE = 18; // of the square that holds a mark
const SERIES = 8;

/** Colours of the page, as they are now. */
export function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue(`--${name}`).trim();
  const names = ["paper", "ink", "quiet", "line", "link", "good", "bad", "bad-back", "odd", "new", "stripe"];
  const theme = Object.fromEntries(names.map((name) => [name, colour(name)]));
  theme.series = Array.from({ length: SERIES }, (_, k) => colour(`series-${k + 1}`));
  return theme;
}

/** The colour of what a lane broadcasts. */
export function laneColour(theme, lane) {
  return lane === 0xffff ? theme.quiet : theme.series[lane % SERIES];
}

/** The shape of each kind of event, by its number. */
export const SHAPE_OF = ["broadcast", "delivery", "stranded", "violation", "dropped"];

/** Shapes, drawn once each: a path around the middle of a square, and whether it is filled. */
const SHAPES = {
  broadcast: (c) => {
    c.arc(0, 0, 4.5, 0, 7);
    c.fill();
  },
  delivery: (c, paper) => {
    c.arc(0, 0, 3.75, 0, 7);
    c.fillStyle = paper;
    c.fill();
    c.stroke();
  },
  violation: (c, paper) => {
    c.moveTo(0, -7.5);
    c.lineTo(7.5, 0);
    c.lineTo(0, 7.5);
    c.lineTo(-7.5, 0);
    c.closePath();
    c.fillStyle = paper;
    c.fill();
    c.stroke();
    c.beginPath();
    c.moveTo(0, -4);
    c.lineTo(0, 1);
    c.moveTo(0, 2.75);
    c.lineTo(0, 4.25);
    c.stroke();
  },
  stranded: (c) => {
    c.setLineDash([2, 2]);
    c.arc(0, 0, 3.75, 0, 7);
    c.stroke();
  },
  dropped: (c) => {
    c.moveTo(-3.5, -3.5);
    c.lineTo(3.5, 3.5);
    c.moveTo(3.5, -3.5);
    c.lineTo(-3.5, 3.5);
    c.stroke();
  },
};

/** A text shortened to a number of letters, taken from both ends. */
function without(text, letters) {
  return `${text.slice(0, Math.ceil(letters / 2))}…${text.slice(text.length - Math.floor(letters / 2))}`;
}

export class Surface {
  /** @param {HTMLCanvasElement} canvas */
  constructor(canvas) {
    this.canvas = canvas;
    this.context = canvas.getContext("2d", { alpha: true });
    this.ratio = 1;
    this.width = 0;
    this.height = 0;
    /** @type {Map<string, HTMLCanvasElement>} */
    this.marks = new Map();
    this.picture = null;
    /** @type {Map<string, number>} */
    this.widths = new Map();
  }

  resize(width, height, ratio) {
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    this.marks.clear();
  }

  /** Colours have changed: discard the cached marks, so that they are redrawn. */
  forget() {
    this.marks.clear();
  }

  clear() {
    const { context, ratio } = this;
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.imageSmoothingEnabled = false;
  }

  /** A whole pixel of the screen. */
  snap(value) {
    return Math.round(value * this.ratio) / this.ratio;
  }

  /** Draw only inside of a box, until `unclip`. */
  clip(x, y, width, height) {
    this.context.save();
    this.context.beginPath();
    this.context.rect(x, y, width, height);
    this.context.clip();
  }

  unclip() {
    this.context.restore();
  }

  drawRect(x, y, width, height, colour, alpha = 1) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.fillRect(x, y, width, height);
    context.globalAlpha = 1;
  }

  /** The outline of a box; `dash` as for lines. */
  drawFrame(x, y, width, height, { colour, size = 1, dash = [] }) {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = size;
    context.setLineDash(dash);
    context.strokeRect(this.snap(x) + 0.5, this.snap(y) + 0.5, Math.round(width), Math.round(height));
    context.setLineDash([]);
  }

  /** @param {number[]} points x and y in turns */
  drawLine(points, { colour, size = 1, alpha = 1, dash = [] }) {
    const { context } = this;
    context.globalAlpha = alpha;
    context.strokeStyle = colour;
    context.lineWidth = size;
    context.setLineDash(dash);
    context.beginPath();
    context.moveTo(points[0], points[1]);
    for (let k = 2; k < points.length; k += 2) context.lineTo(points[k], points[k + 1]);
    context.stroke();
    context.setLineDash([]);
    context.globalAlpha = 1;
  }

  /**
   * Columns of equal width: all that are drawn until `endColumns` go to the screen as one picture, a
   * tenth of the time that as many boxes take.
   */
  beginColumns(x, width, columns) {
    const rows = this.canvas.height;
    const known = this.picture;
    if (known && known.columns === columns && known.rows === rows) known.pixels.fill(0);
    else {
      const canvas = document.createElement("canvas");
      Object.assign(canvas, { width: columns, height: rows });
      const data = new ImageData(columns, rows);
      this.picture = { canvas, columns, rows, data, pixels: new Uint32Array(data.data.buffer) };
    }
    Object.assign(this.picture, { x, width });
  }

  /** Columns that stand on one line. @param {ArrayLike<number>} heights */
  drawColumns(bottom, heights, colour, alpha = 1) {
    const { pixels, columns, rows } = this.picture;
    const ink = this._pixel(colour, alpha);
    const last = Math.round(bottom * this.ratio);
    for (let column = 0; column < columns; column += 1) {
      if (!heights[column]) continue;
      const first = Math.max(0, last - Math.round(heights[column] * this.ratio));
      for (let row = first; row < last && row < rows; row += 1) pixels[row * columns + column] = ink;
    }
  }

  endColumns() {
    const { canvas, data, columns, x, width } = this.picture;
    canvas.getContext("2d").putImageData(data, 0, 0);
    this.context.drawImage(canvas, x, 0, columns * width, this.height);
  }

  /** A colour as the four bytes of a pixel. */
  _pixel(colour, alpha) {
    this.context.fillStyle = colour;
    const [red, green, blue] = [1, 3, 5].map((at) => parseInt(this.context.fillStyle.slice(at, at + 2), 16));
    return ((Math.round(alpha * 255) << 24) | (blue << 16) | (green << 8) | red) >>> 0;
  }

  /** A line with a head at its end. */
  drawArrow({ x1, y1, x2, y2 }, { colour, size = 1.5, alpha = 1, dash = [] }) {
    this.drawLine([x1, y1, x2, y2], { colour, size, alpha, dash });
    const { context } = this;
    const angle = Math.atan2(y2 - y1, x2 - x1);
    const length = 5 + size;
    context.globalAlpha = alpha;
    context.fillStyle = colour;
    context.beginPath();
    context.moveTo(x2, y2);
    context.lineTo(x2 - length * Math.cos(angle - 0.42), y2 - length * Math.sin(angle - 0.42));
    context.lineTo(x2 - length * Math.cos(angle + 0.42), y2 - length * Math.sin(angle + 0.42));
    context.fill();
    context.globalAlpha = 1;
  }

  /** @param {keyof typeof SHAPES} shape */
  drawMark(shape, colour, paper, x, y) {
    const key = `${shape} ${colour} ${paper}`;
    let mark = this.marks.get(key);
    if (!mark) {
      mark = this._makeMark(shape, colour, paper);
      this.marks.set(key, mark);
    }
    this.context.drawImage(mark, this.snap(x - MARK_SIZE / 2), this.snap(y - MARK_SIZE / 2), MARK_SIZE, MARK_SIZE);
  }

  _makeMark(shape, colour, paper) {
    const mark = document.createElement("canvas");
    mark.width = Math.round(MARK_SIZE * this.ratio);
    mark.height = mark.width;
    const context = mark.getContext("2d");
    context.scale(this.ratio, this.ratio);
    context.translate(MARK_SIZE / 2, MARK_SIZE / 2);
    context.fillStyle = colour;
    context.strokeStyle = colour;
    context.lineWidth = 1.5;
    context.beginPath();
    SHAPES[shape](context, paper);
    return mark;
  }

  drawRing(x, y, radius, { colour, size = 2 }) {
    const { context } = this;
    context.strokeStyle = colour;
    context.lineWidth = size;
    context.beginPath();
    context.arc(x, y, radius, 0, 7);
    context.stroke();
  }

  measure(text, font = FONT) {
    const key = font + text;
    let width = this.widths.get(key);
    if (width === undefined) {
      this.context.font = font;
      width = this.context.measureText(text).width;
      if (this.widths.size > 5000) this.widths.clear();
      this.widths.set(key, width);
    }
    return width;
  }

  /** @param {{colour: string, font?: string, align?: CanvasTextAlign}} style */
  drawText(text, x, y, { colour, font = FONT, align = "left" }) {
    const { context } = this;
    context.fillStyle = colour;
    context.font = font;
    context.textAlign = align;
    context.textBaseline = "middle";
    context.fillText(text, this.snap(x), this.snap(y));
  }

  /** Text on a plate of its own, held inside of the surface; the box that it takes. */
  drawLabel(text, x, y, { colour, back, border = colour, font = SMALL_FONT, align = "left", inset = 0 }) {
    const width = Math.ceil(this.measure(text, font)) + 10;
    const wanted = align === "left" ? x : align === "right" ? x - width : x - width / 2;
    const left = this.snap(Math.max(inset, Math.min(this.width - width - 1, wanted)));
    const top = this.snap(Math.max(1, Math.min(this.height - 18, y - 8.5)));
    this.drawRect(left, top, width, 17, back);
    this.drawFrame(left, top, width - 1, 16, { colour: border });
    this.drawText(text, left + 5, top + 9, { colour, font });
    return { left, top, width, height: 17 };
  }

  /** As much of a text as fits, without its middle. */
  shortened(text, width, font = FONT) {
    if (this.measure(text, font) <= width) return text;
    let low = 0;
    let high = text.length;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.measure(without(text, middle), font) <= width) low = middle;
      else high = middle - 1;
    }
    return without(text, low);
  }
}

// The live page of a cluster: what each process logs, faults, throughput, and the verdict so far.
import { count, counted, listed } from "./words.js";
import { FONT, SMALL_FONT, Surface, laneColour, readTheme } from "./surface.js";

const POLL_MS = 400;
const GUTTER = 44;
const AXIS = 22;
const COLUMNS_MIN = 60; // a shorter run is not stretched over the whole width
const ROW_MIN = 14;
const ROW_MAX = 46;

const byId = (id) => document.getElementById(id);
const surface = new Surface(byId("lanes"));
let state = null;

function item(text, kind = "") {
  const made = document.createElement("li");
  made.className = kind;
  made.textContent = text;
  return made;
}

const seconds = (value) => `${value.toFixed(1)} s`;

function faultWords({ kind, members, at_s: from, until_s: until }) {
  const who = kind === "partition" ? `${listed(members.map(String))} cut off` : `${members.length > 1 ? "processes" : "process"} ${listed(members.map(String))}`;
  const span = kind === "kill" || kind === "reset" ? "" : until === null ? ", goes on" : ` to ${seconds(until)}`;
  return `${kind} at ${seconds(from)}${span}: ${who}`;
}

function showWords() {
  const { protocol, members, verdict, deliveries, violations, is_final: isFinal, rows_per_s: rate } = state;
  byId("title").textContent = `${protocol}: ${counted(members, "process", "processes")}`;
  const goesOn = isFinal || verdict === "violated" ? "" : " so far";
  byId("verdict").textContent = state.error ?? (verdict ? `${verdict}${goesOn}` : "waiting for the first event");
  byId("verdict").className = verdict ?? "";
  const wrong = `${count(violations)} of ${counted(deliveries, "delivery", "deliveries")} out of causal order`;
  byId("counts").textContent = deliveries ? (violations ? wrong : counted(deliveries, "delivery", "deliveries")) : "";
  const waiting = state.rows_read - state.rows_judged;
  const behind = waiting > 0 && !isFinal ? `; ${count(waiting)} not judged yet` : "";
  byId("rate").textContent = isFinal
    ? `The group has ended after ${seconds(state.now_s)}.`
    : `${count(rate)} events/s logged at ${seconds(state.now_s)}${behind}`;
  byId("witnesses").replaceChildren(...state.witnesses.map((sentence) => item(sentence, "bad")));
  const faults = state.faults.map((fault) => item(faultWords(fault)));
  byId("faults").replaceChildren(...(faults.length ? faults : [item("none so far", "quiet")]));
}

function drawLanes() {
  const theme = readTheme();
  const { clientWidth: width } = byId("watch");
  const row = Math.max(ROW_MIN, Math.min(ROW_MAX, Math.floor((innerHeight * 0.6) / state.members)));
  const height = AXIS + row * state.members + 4;
  byId("lanes").style.height = `${height}px`;
  surface.resize(width, height, window.devicePixelRatio || 1);
  surface.clear();
  const { rows, first_s: first, every_s: every } = state;
  const columns = Math.max(COLUMNS_MIN, rows[0].length);
  const wide = (width - GUTTER) / columns;
  const x = (at) => GUTTER + Math.max(0, Math.min(columns, (at - first) / every)) * wide;
  const top = (member) => AXIS + member * row;
  const step = [1, 2, 5, 10, 20].find((one) => (one / every) * wide > 50) ?? 60;
  for (let at = Math.max(0, Math.ceil(first / step) * step); at < first + columns * every; at += step) {
    surface.drawLine([x(at), AXIS - 4, x(at), height], { colour: theme.line });
    surface.drawText(`${at} s`, x(at) + 3, AXIS / 2, { colour: theme.quiet, font: SMALL_FONT });
  }
  const most = rows.flat().reduce((high, value) => Math.max(high, value), 1);
  rows.forEach((values, member) => {
    surface.drawText(String(member), 14, top(member) + row / 2, { colour: theme.ink, font: FONT });
    surface.drawLine([GUTTER, top(member) + row, width, top(member) + row], { colour: theme.line });
    values.forEach((value, k) => {
      const high = value ? Math.max(2, (row - 4) * Math.sqrt(value / most)) : 0;
      const left = GUTTER + k * wide;
      surface.drawRect(left, top(member) + row - high, Math.max(1, wide - 1), high, laneColour(theme, member), 0.75);
    });
  });
  for (const [k, { kind, members, at_s: from, until_s: until }] of state.faults.entries()) {
    const end = kind === "reset" ? from : (until ?? Infinity);
    const right = Math.max(x(from) + 2, Math.min(x(end), GUTTER + (rows[0].length || 1) * wide));
    if (end < first) continue;
    for (const member of members) {
      const isGone = kind === "kill";
      surface.drawRect(x(from), top(member) + 1, right - x(from), row - 1, isGone ? theme.bad : theme.odd, 0.22);
      surface.drawRect(x(from), top(member) + 1, 2, row - 1, isGone ? theme.bad : theme.odd);
      const style = { colour: isGone ? theme.bad : theme.odd, back: theme.paper };
      // In turns above and below, so that faults close to each other can be read.
      surface.drawLabel(kind, x(from) + 4, top(member) + row * (k % 2 ? 0.75 : 0.3), style);
    }
  }
}

function show() {
  showWords();
  drawLanes();
}

async function poll() {
  try {
    state = await (await fetch("state")).json();
  } catch {
    if (!state?.is_final) byId("rate").textContent = "The group has ended, or its process cannot be reached.";
    return;
  }
  show();
  if (!state.is_final) setTimeout(poll, POLL_MS);
}

window.addEventListener("resize", () => state && show());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => state && show());
poll();

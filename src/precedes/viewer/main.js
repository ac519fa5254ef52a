// The page: reads its data, builds stages, wires buttons, and opens where the head says.
import { counted } from "./words.js";
import { Trace, isDelivery, readHead, readTexts, unpack } from "./model.js";
import { Layout } from "./layout.js";
import { BOLD_FONT, Surface } from "./surface.js";
import { ROOMY_ROW } from "./scene.js";
import { witnessEvents } from "./overlay.js";
import { element, fillLegend, showState } from "./panel.js";
import { fillLanes } from "./lanes.js";
import { setUpSearch } from "./search.js";
import { Viewer } from "./viewer.js";
import { giveHook } from "./hook.js";
import { KEYS, listenToKeys, listenToPointers } from "./input.js";

const EVENT_ROOM = 30; // pixels of a lane for each of its events, about, when a page opens

const byId = (id) => document.getElementById(id);

async function open() {
  const head = readHead();
  const packed = head.traces.map((_, k) => unpack(byId(`precedes-events-${k}`).textContent));
  const texts = await Promise.all(head.traces.map((_, k) => readTexts(k)));
  const traces = (await Promise.all(packed)).map((bytes, k) => new Trace(head.traces[k], bytes, texts[k]));
  nameApart(traces);
  showTitles(head, traces);
  if (!traces.some((trace) => trace.events)) {
    byId("stages").replaceChildren(element("p", { class: "empty" }, "There are no events to draw in this trace."));
    const words = head.traces.map((trace) => trace.summary).join(" ");
    byId("selection").replaceChildren(element("p", { class: "quiet" }, words));
    for (const one of document.querySelectorAll(".tools button, .tools input")) one.disabled = one.id !== "help";
    for (const id of ["legend", "lanes"]) byId(id).hidden = true;
    setUpHelp();
    return;
  }
  const stages = traces.map((trace) => makeStage(trace, traces.length > 1));
  byId("stages").replaceChildren(...stages.map((stage) => stage.element));
  const viewer = new Viewer(head, stages, { coneEvents: Number(byId("viewer").dataset.coneEvents) });
  viewer.resize();
  goToOpening(viewer, head);
  showState(viewer);
  viewer.showPanel();
  viewer.isStale = true;
  viewer.draw();
  viewer.firstPaintMs = performance.now();
  wire(viewer);
  giveHook(viewer);
}

const fileOf = (title) => title.split("/").at(-1) || title;

/** Two runs of one protocol are called by their files, or by their place. */
function nameApart([first, second]) {
  if (!second || first.name !== second.name) return;
  const names = [first, second].map((trace) => fileOf(trace.head.title));
  const isSame = names[0] === names[1];
  [first, second].forEach((trace, k) => (trace.name = isSame ? `${names[k]} (${k + 1})` : names[k]));
}

/** @param {import("./model.js").Trace} trace */
function makeStage(trace, isNamed) {
  const canvases = [0, 1].map(() => element("canvas", { "aria-hidden": "true" }));
  const title = isNamed ? element("h2", {}, trace.name) : null;
  const place = element("div", { class: "stage" }, ...canvases, title);
  const [scene, overlay] = canvases.map((canvas) => new Surface(canvas));
  const titleWidth = isNamed ? scene.measure(trace.name, BOLD_FONT) + 16 : 0;
  const shown = { arrows: [], labels: [] };
  const drawn = { detail: "marks", runs: 0, markBoxes: [], beyond: null, titleWidth, above: shown, below: shown };
  return { trace, layout: new Layout(trace), scene, overlay, element: place, selected: null, shown: -1, ...drawn };
}

/** The sentence of the audit, without the verdict that stands before it. */
function summaryOf({ verdict, summary }) {
  const text = summary.startsWith(`${verdict}: `) ? summary.slice(verdict.length + 2) : summary;
  return text.endsWith(".") ? text : `${text}.`;
}

function showTitles(head, traces) {
  byId("title").textContent = traces.map((trace) => fileOf(trace.head.title)).join(" and ");
  byId("title").title = traces.map((trace) => trace.head.title).join(" and ");
  const signs = { held: "✓ held", violated: "◆ violated", unknown: "? unknown" };
  byId("verdict").replaceChildren(
    ...traces.flatMap(({ head: one, name }) => [
      ...(traces.length > 1 ? [`${name}: `] : []),
      element("b", { class: one.verdict }, signs[one.verdict] ?? one.verdict),
      ` ${summaryOf(one)} `,
    ]),
  );
  const notes = traces.flatMap(({ head: one, origin }) => [
    one.left_out?.sentence,
    one.time_note,
    one.adjusted ? `${counted(one.adjusted, "event")} moved: a node's clock went back.` : null,
    origin ? "Times are since the first event on this page." : null,
  ]);
  const text = [...new Set(notes.filter(Boolean))].join(" ");
  byId("notes").textContent = text;
  byId("notes").hidden = !text;
  const sizeOf = (one) =>
    `${counted(one.lanes.length, "node")} and ${counted(one.events - (one.edges ?? 0), "event")}`;
  const sizes = head.traces.map(sizeOf);
  const summaries = head.traces.map(summaryOf).join(" ");
  byId("stages").setAttribute("aria-label", `Space-time diagram of ${sizes.join("; and of ")}. ${summaries}`);
  const made = head.made_by ?? {};
  byId("axis-time").parentElement.hidden = !traces.some((trace) => trace.head.has_time); // its axis is by depth
  byId("made").replaceChildren(
    element("p", {}, `precedes ${made.version ?? ""} ${String(made.sources ?? "").slice(0, 12)}`),
    ...(head.command ? [element("p", {}, element("code", {}, head.command))] : []),
    ...head.traces.map((one) => element("p", {}, `${one.title}: ${sizeOf(one)}, ${counted(one.messages, "message")}`)),
  );
}

/** The first violation in its frame, with more around it if it is a single event; or the window of the head. */
function goToOpening(viewer, { opening }) {
  const trace = viewer.traces[opening.trace];
  const violation = opening.violation === null ? undefined : trace.head.violations[opening.violation];
  const times = violation?.path.length === 1 ? witnessEvents(trace, violation).map((event) => trace.time[event]) : [];
  const from = Math.min(opening.from_us === null ? viewer.bounds[0] : opening.from_us - trace.origin, ...times);
  const to = Math.max(opening.to_us === null ? viewer.bounds[1] : opening.to_us - trace.origin, ...times);
  const margin = (to - from) * 0.04;
  viewer.setWindow(from - margin, to + margin);
  if (violation) viewer.showViolation({ trace: opening.trace, number: opening.violation }, { isFramed: false });
  else if (opening.message !== null) {
    const event = trace.broadcastOf[opening.message];
    const known = event >= 0 ? event : trace.eventsOf(opening.message)[0];
    if (known !== undefined) viewer.select(opening.trace, known);
  }
  viewer.setWindow(from - margin, to + margin); // at once, without a way to it
  if (opening.why === "busiest window") showAnEdge(viewer);
}

/** Fewer events where lanes are short, and at least one message between nodes, with its arrow. */
function showAnEdge(viewer) {
  const [stage] = viewer.stages;
  const { trace, layout } = stage;
  const [from, to] = viewer.window;
  let best = null;
  for (let effect = 0; effect < trace.events; effect += 1) {
    const cause = isDelivery(trace.kind[effect]) ? trace.broadcastOf[trace.message[effect]] : -1;
    if (cause < 0 || trace.lane[cause] === trace.lane[effect]) continue;
    const [low, high] = [cause, effect].map((event) => trace.position[event]).sort((a, b) => a - b);
    if (low < from || high > to) continue;
    const away = Math.abs((low + high - from - to) / 2) + (high - low);
    if (!best || away < best.away) best = { low, high, away, cause, effect };
  }
  if (!best) return;
  // Labels next to their events need more room.
  const room = Math.max(4, layout.plotWidth / (layout.rowHeight < ROOMY_ROW ? 2 * EVENT_ROOM : EVENT_ROOM));
  const middle = (best.low + best.high) / 2;
  const most = (half) =>
    Math.max(...layout.rows.map((lane) => trace.firstFrom(lane, middle + half) - trace.firstFrom(lane, middle - half)));
  let half = (to - from) / 2;
  while (most(half) > room && half > (best.high - best.low) * 0.8) half *= 0.85;
  if (half < (to - from) / 2) viewer.setWindow(middle - half, middle + half);
  layout.reveal([trace.lane[best.cause], trace.lane[best.effect]]);
  viewer.draw();
  if (stage.below.arrows.length) return;
  viewer.select(0, best.cause, { isRevealed: false });
  const places = [...trace.eventsOf(trace.message[best.cause])].map((event) => trace.position[event]);
  const [low, high] = [Math.min(...places), Math.max(...places)];
  const margin = (high - low) * 0.05;
  if (low < viewer.window[0] || high > viewer.window[1]) viewer.setWindow(low - margin, high + margin);
}

function wire(viewer) {
  const on = (id, action) => byId(id).addEventListener("click", action);
  on("violation-next", () => viewer.nextViolation(1));
  on("violation-before", () => viewer.nextViolation(-1));
  on("zoom-in", () => viewer.zoom(1 / 1.5));
  on("zoom-out", () => viewer.zoom(1.5));
  on("fit", () => viewer.fit());
  on("direct", () => viewer.setFull(false));
  on("full", () => viewer.setFull(true));
  on("axis-time", () => viewer.setAxis(true));
  on("axis-depth", () => viewer.setAxis(false));
  setUpHelp();
  listenToKeys(viewer);
  viewer.stages.forEach((stage, k) => listenToPointers(viewer, stage, k));
  setUpSearch(viewer.traces, (match) => goToMatch(viewer, match));
  const legend = () => fillLegend(byId("legend").querySelector("ul"), viewer.theme, viewer.traces);
  legend();
  byId("legend").open = matchMedia("(min-width: 801px)").matches && !viewer.violation;
  const names = viewer.lanes.map((one) => one.name);
  const tools = {
    theme: () => viewer.theme,
    numberOf: (name) => names.indexOf(name),
    changed: (words) => viewer.lanesChanged(words),
  };
  const fill = () => viewer.onLanes.push(fillLanes(byId("lanes").querySelector("div"), viewer.lanes, tools));
  byId("lanes").addEventListener("toggle", fill, { once: true });
  const colours = () => {
    viewer.setTheme();
    legend();
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", colours);
  matchMedia("print").addEventListener("change", colours);
  const sized = () => {
    viewer.resize();
    viewer.isStale = true;
    viewer.draw();
  };
  new ResizeObserver(sized).observe(byId("stages"));
  window.addEventListener("resize", sized); // also when the page is zoomed
}

function goToMatch(viewer, match) {
  byId("stages").focus();
  const stage = viewer.stages[match.trace];
  if (match.kind === "node") {
    viewer.unhide([match.name]);
    stage.layout.reveal([match.number]);
    const { trace, layout } = stage;
    const first = Math.min(trace.firstFrom(match.number, layout.from), trace.laneStart[match.number + 1] - 1);
    if (first >= trace.laneStart[match.number]) viewer.select(match.trace, trace.laneEvents[first]);
    return;
  }
  const start = match.kind === "event" ? match.number : stage.trace.broadcastOf[match.number];
  const event = start >= 0 ? start : stage.trace.eventsOf(match.number)[0];
  viewer.unhide([stage.trace.lanes[stage.trace.lane[event]]]);
  viewer.select(match.trace, event);
}

function setUpHelp() {
  const list = byId("keys").querySelector("dl");
  const keys = (shown) => shown.split(" ").flatMap((key) => [element("kbd", {}, key), " "]);
  const row = ([, shown, text]) => element("div", {}, element("dt", {}, ...keys(shown)), element("dd", {}, text));
  list.replaceChildren(...KEYS.map(row));
  byId("help").addEventListener("click", () => byId("keys").showModal());
}

open().catch((error) => {
  byId("stages").replaceChildren(element("p", { class: "empty" }, `The diagram cannot be drawn: ${error.message}`));
  throw error;
});

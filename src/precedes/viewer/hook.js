// For tests and benchmarks: `window.precedes` says what is shown. It is there to be read; only `pan`
// does something, and times it.

/** @param {import("./viewer.js").Viewer} viewer */
export function giveHook(viewer) {
  const hook = {
    place: (event, k = 0) => placeOf(viewer.stages[k], event),
    pan: (share) => timedPan(viewer, share),
  };
  const tell = (name, get) => Object.defineProperty(hook, name, { get });
  tell("state", () => stateOf(viewer));
  tell("redrawMs", () => [...viewer.redrawMs]);
  tell("firstPaintMs", () => viewer.firstPaintMs);
  tell("arrays", () => [viewer.traces[0].time, viewer.traces[0].lane]);
  tell("depth", () => viewer.traces.map(({ depth }) => depth && [...depth]));
  Object.defineProperty(window, "precedes", { value: Object.freeze(hook) });
}

/** Where an event is on the screen. */
function placeOf({ trace, layout, element: box }, event) {
  const { left, top } = box.getBoundingClientRect();
  const row = layout.rowOf[trace.lane[event]];
  return { x: left + layout.x(trace.position[event]), y: top + layout.rowY(row) };
}

function stateOf(viewer) {
  const { selection, traces } = viewer;
  return {
    window: viewer.window,
    axis: viewer.isTime ? "time" : "depth",
    isFull: viewer.isFull,
    selection: selection && { ...selection, name: traces[selection.trace].messageName(selection.message) },
    violation: viewer.violation,
    focusMark: viewer.focusMark?.mark.kind ?? null,
    stages: viewer.stages.map(stageState),
  };
}

function stageState({ trace, layout, selected, detail, runs, beyond, seenEvents, above, below, parts }) {
  const arrows = [...above.arrows, ...below.arrows].map(({ x1, y1, x2, y2 }) => ({ x1, y1, x2, y2 }));
  const labels = [...above.labels, ...below.labels];
  const { fixed, scroll, scrollMax, gutter, rowHeight } = layout;
  const rows = layout.rows.map((lane) => trace.lanes[lane]);
  const chosen = selected && selectedState(selected);
  const marks = [...parts].map(([, { singles }]) => singles.map((i) => layout.x(trace.lanePosition[i])));
  const drawn = { detail, runs, beyond, seenEvents, arrows, labels, marks };
  return { ...drawn, rows, fixed, scroll, scrollMax, gutter, rowHeight, selected: chosen };
}

function selectedState({ message, event, direct, cone }) {
  const { isDone, isCapped } = cone;
  const [past, future] = [[...cone.past], [...cone.future]];
  return { message, event, direct: direct.messages, past, future, isDone, isCapped };
}

/** Pans by a share of the window, draws both canvases and waits for the pixels: milliseconds. */
function timedPan(viewer, share) {
  const begin = performance.now();
  const [from, to] = viewer.window;
  const step = (to - from) * share;
  for (const { layout } of viewer.stages) Object.assign(layout, { from: from + step, to: to + step });
  viewer.isStale = true;
  viewer.draw();
  for (const { scene, overlay } of viewer.stages)
    for (const { context } of [scene, overlay]) context.getImageData(0, 0, 1, 1);
  return performance.now() - begin;
}

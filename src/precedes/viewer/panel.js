// The panel: what is on the screen, in words and as a table.
import { count, counted, duration, listed } from "./words.js";
import { BROADCAST, DELIVERY, DROPPED, EDGE, STRANDED, VIOLATION, WAIT_UNKNOWN, isDelivery, stepSize } from "./model.js";
import { coneSizes, waitedFor } from "./causality.js";
import { differences } from "./lockstep.js";
import { Surface } from "./surface.js";

const ROWS_MAX = 200;
const WAITS_LISTED = 4;

/** An element with attributes and children; a child that is text stays text. */
export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value === true) made.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null));
  return made;
}

/** When an event was: a time, or a place in the order of a log that has no times. */
export function whenWords(trace, event) {
  return timeWords(trace, trace.time[event]);
}

/** The same of a time. */
export function timeWords(trace, time) {
  const size = stepSize(trace, true);
  return size ? `step ${count(Math.round(time / size))}` : duration(time);
}

/** One event in a line, for the live region and for hovering. */
export function eventWords(trace, event) {
  const words = kindWords(trace, event);
  const text = trace.textOf(event);
  return text ? `${text} · ${words}` : words;
}

function kindWords(trace, event) {
  const name = trace.messageName(trace.message[event]);
  const node = trace.lanes[trace.lane[event]];
  const wait = trace.wait[event];
  const waited = wait && wait !== WAIT_UNKNOWN ? `, after waiting ${duration(wait)}` : "";
  const when = `at ${whenWords(trace, event)}`;
  switch (trace.kind[event]) {
    case EDGE:
      return `event of ${node} ${when}, directly after ${name}`;
    case BROADCAST:
      if (trace.hasEdges) return `event ${name} of ${node} ${when}`;
      return `${name} broadcast by ${node} ${when}`;
    case STRANDED:
      return `${name} received by ${node} and never delivered, ${when}`;
    case DROPPED:
      return `${name} dropped by ${node} ${when}`;
    case VIOLATION:
      return `${name} delivered at ${node} ${when}${waited}: a violation`;
    default:
      return `${name} delivered at ${node} ${when}${waited}`;
  }
}

/** The whole life of a message as a sentence. @param {import("./overlay.js").Selected} selected */
export function messageWords(trace, selected) {
  const { message, direct, cone } = selected;
  if (trace.hasEdges) return edgeWords(trace, message, direct);
  const start = trace.broadcastOf[message];
  const parts = [start < 0 ? "Its broadcast is not on this page" : broadcastWords(trace, start, direct)];
  const node = (event) => trace.lanes[trace.lane[event]];
  const events = [...trace.eventsOf(message)];
  const delivered = events.filter((e) => isDelivery(trace.kind[e]));
  const waits = delivered.filter((e) => trace.wait[e] && trace.wait[e] !== WAIT_UNKNOWN);
  const longest = waits.sort((a, b) => trace.wait[b] - trace.wait[a]).slice(0, WAITS_LISTED);
  const others = delivered.filter((e) => !longest.includes(e));
  if (others.length) parts.push(`delivered at ${listed(others.map(node), 16)}`);
  else if (!delivered.length) parts.push("delivered nowhere on this page");
  for (const event of longest) {
    const cause = waitedFor(trace, event, cone);
    const why = cause >= 0 ? ` for ${trace.messageName(cause)}` : "";
    parts.push(`at ${node(event)} it waited ${duration(trace.wait[event])}${why}`);
  }
  const stranded = events.filter((e) => trace.kind[e] === STRANDED);
  if (stranded.length) parts.push(`never delivered at ${listed(stranded.map(node))}`);
  const dropped = events.filter((e) => trace.kind[e] === DROPPED);
  if (dropped.length) parts.push(`dropped at ${listed(dropped.map(node))}`);
  return `${parts.join("; ")}.`;
}

/** An event of a log that says what its events follow. */
function edgeWords(trace, message, direct) {
  const start = trace.broadcastOf[message];
  if (start < 0) return "This event is not on this page.";
  const named = (m) => `${trace.messageName(m)}${trace.broadcastOf[m] < 0 ? "" : textIn(trace, trace.broadcastOf[m])}`;
  const node = trace.lanes[trace.lane[start]];
  const before = direct.messages.length ? `directly after ${listed(direct.messages.map(named))}` : "after no other";
  const later = [...trace.eventsOf(message)].filter((event) => trace.kind[event] === EDGE);
  const after = later.map((event) => named(trace.message[trace.ownerOf(event)]));
  const next = after.length ? `; directly before ${listed(after)} at other nodes` : "";
  return `Event of ${node} at ${whenWords(trace, start)}, ${before}${next}.`;
}

function textIn(trace, event) {
  const text = trace.labelOf(event);
  return trace.textOf(event) ? ` (${text.length > 60 ? `${text.slice(0, 59)}…` : text})` : "";
}

function broadcastWords(trace, start, direct) {
  const own = direct.messages.filter((m) => trace.source[m] === trace.lane[start]);
  const names = direct.messages.filter((m) => !own.includes(m)).map((m) => trace.messageName(m));
  const after = names.length ? ` after delivering ${direct.isCut ? "among others " : ""}${listed(names)}` : "";
  const mine = listed(own.map((m) => trace.messageName(m)));
  const before = mine ? `${after ? ", and" : ""} after its own ${mine}` : "";
  return `Broadcast by ${trace.lanes[trace.lane[start]]} at ${whenWords(trace, start)}${after}${before}`;
}

/** Size of the cone, and whether it is complete. */
export function coneWords(trace, cone) {
  if (!cone.isDone) return "Following causes and effects …";
  const { past, future } = coneSizes(trace, cone);
  const size = `${counted(past, "event")} before it and ${count(future)} after it`;
  if (!cone.isCapped) return `Cone: ${size}.`;
  return `Cone: at least ${size}; stopped after looking at ${count(cone.visited)}, so more may belong to it.`;
}

/** The events of the selection as a table: the same that the arrows show. */
export function selectionTable(trace, selected, choose) {
  const events = [...trace.eventsOf(selected.message)];
  const first = trace.hasEdges ? "event" : "broadcast";
  const kinds = [first, "delivered", "not delivered", "too early", "dropped", "followed by"];
  const rows = events.slice(0, ROWS_MAX).map((event) => {
    const wait = trace.wait[event];
    const cause = waitedFor(trace, event, selected.cone);
    const node = trace.lanes[trace.lane[event]];
    const hasWait = isDelivery(trace.kind[event]);
    const onclick = () => choose(event);
    const button = element("button", { type: "button", onclick, "aria-label": `Go to ${node}` }, node);
    const place = count(trace.place[event] + 1);
    const title = `event ${place} of ${count(trace.laneLength(trace.lane[event]))} at ${node}`;
    return element(
      "tr",
      { class: event === selected.event ? "current" : null },
      element("th", { scope: "row" }, button),
      element("td", {}, `${kinds[trace.kind[event]]}${trace.texts ? ` ${trace.labelOf(event) ?? ""}` : ""}`),
      element("td", { class: "number" }, whenWords(trace, event)),
      element("td", { class: "number", title }, place),
      ...(trace.hasWaits
        ? [
            element("td", { class: "number" }, !hasWait ? "" : wait === WAIT_UNKNOWN ? "unknown" : duration(wait)),
            element("td", {}, cause >= 0 ? trace.messageName(cause) : ""),
          ]
        : []),
    );
  });
  const isCut = events.length > rows.length;
  const caption = isCut ? `The first ${count(ROWS_MAX)} of ${count(events.length)} events` : "In the order of time";
  const heads = [["node"], ["event"], ["when", "number"], ["position", "number"], ["waited", "number"], ["for"]];
  if (!trace.hasWaits) heads.splice(4);
  const cells = heads.map(([text, kind]) => element("th", { scope: "col", class: kind }, text));
  return element(
    "div",
    { class: "frame", tabindex: "0", role: "region", "aria-label": "Events of the selected message" },
    element(
      "table",
      {},
      element("caption", {}, caption),
      element("thead", {}, element("tr", {}, ...cells)),
      element("tbody", {}, ...rows),
    ),
  );
}

/** The violation in the frame: the sentence of the audit, and the steps of the witness. */
export function violationBox(trace, number, choose) {
  const violation = trace.head.violations[number];
  const absent = trace.head.violations_more ?? 0;
  const all = trace.head.violations.length + absent;
  const more = absent ? `, ${count(absent)} of them not on this page` : "";
  const steps = violation.path.map((event) => {
    const onclick = () => choose(event);
    return element("li", {}, element("button", { type: "button", onclick }, eventWords(trace, event)));
  });
  return [
    element("h2", {}, `◆ Violation ${count(violation.number ?? number + 1)} of ${count(all)}${more}`),
    element("p", {}, violation.sentence),
    element("details", {}, element("summary", {}, "Step by step"), element("ol", { class: "steps" }, ...steps)),
  ];
}

/** Both traces: how long the same message waited in each, and how much differs in all. */
export function lockstepBox(traces, pair, found) {
  const [first, second] = traces.map((trace) => trace.name);
  const parts = [element("h2", {}, `${first} and ${second}`)];
  if (pair) parts.push(element("p", {}, pairWords(traces, pair)));
  if (found) {
    const [only, longer, missing] = [found.only, found.longer, found.missing].map((pair) => pair.map(count));
    const waited = found.waited.map(duration);
    const texts = [
      `${counted(found.messages, "message")} in both, ${only[0]} only in ${first}, ${only[1]} only in ${second}.`,
      `Of ${counted(found.deliveries, "delivery", "deliveries")} in both, ${longer[0]} waited longer in ${first} ` +
        `and ${longer[1]} in ${second}; ${missing[0]} more are missing in ${first}, ${missing[1]} in ${second}.`,
      `Waited in all: ${first} ${waited[0]}, ${second} ${waited[1]}.`,
    ];
    parts.push(...texts.map((text) => element("p", {}, text)));
  }
  return parts;
}

function pairWords(traces, pair) {
  const name = pair.name;
  if (pair.messages.some((m) => m < 0)) return `${name} is only in ${traces[pair.messages[0] < 0 ? 1 : 0].name}.`;
  const longest = traces.map((trace, k) => {
    const waits = [...trace.eventsOf(pair.messages[k])].map((e) => trace.wait[e]).filter((w) => w !== WAIT_UNKNOWN);
    return waits.length ? `waited ${duration(Math.max(...waits))} at most` : "has no known wait";
  });
  const here = traces.map((trace, k) => {
    const event = pair.events[k];
    if (event < 0 || trace.kind[event] === BROADCAST) return null;
    return trace.wait[event] === WAIT_UNKNOWN ? "unknown" : duration(trace.wait[event]);
  });
  const [first, second] = traces.map((trace) => trace.name);
  if (!here.includes(null)) return `${name} at ${pair.node}: ${first} waited ${here[0]}, ${second} ${here[1]}.`;
  return `${name}: in ${first} it ${longest[0]}, in ${second} it ${longest[1]}.`;
}

/** Legend of the marks, drawn by the same code. */
export function fillLegend(list, theme, traces) {
  const mark = (shape, colour = theme.series[0], x = 14) => (s) => s.drawMark(shape, colour, theme.paper, x, 9);
  const drawWait = (s) => {
    s.drawRect(2, 8, 20, 2, theme.series[0], 0.6);
    mark("delivery", theme.series[0], 23)(s);
  };
  const drawHeights = (s) => {
    s.beginColumns(2, 3, 8);
    s.drawColumns(14, [3, 6, 9, 12, 8, 10, 5, 2], theme.quiet, 0.4);
    s.drawColumns(14, [0, 2, 5, 7, 3, 4, 0, 0], theme.quiet, 0.8);
    s.drawColumns(17, [0, 3, 3, 0, 0, 3, 0, 0], theme.series[0]);
    s.endColumns();
  };
  const has = (kind) => traces.some((trace) => trace.kind.includes(kind));
  const hasEdges = traces.some((trace) => trace.hasEdges);
  const hasWaits = traces.some((trace) => trace.hasWaits && trace.head.has_time);
  const drawArrow = (s) => s.drawArrow({ x1: 3, y1: 3, x2: 25, y2: 15 }, { colour: theme.series[0], size: 1.25 });
  const items = [
    [true, mark("broadcast"), hasEdges ? "event; the colour is the node's" : "broadcast; the colour is the sender's"],
    [has(DELIVERY), mark("delivery"), "delivery"],
    [true, drawArrow, hasEdges ? "what an event follows directly, by the log" : "from a broadcast to a delivery"],
    [hasWaits, drawWait, "the wait from arrival to delivery"],
    [has(VIOLATION), mark("violation", theme.bad), "delivery that breaks the order"],
    [has(STRANDED), mark("stranded"), "received, never delivered"],
    [has(DROPPED), mark("dropped"), "dropped"],
    [true, drawHeights, `events too close to tell apart, by density${hasWaits ? "; darker: those that waited" : ""}`],
    [traces.some((trace) => trace.marks.length), (s) => s.drawRect(12, 1, 2, 16, theme.odd), "crash, join, view and the like"],
  ];
  list.replaceChildren(
    ...items.filter(([isShown]) => isShown).map(([, draw, text]) => {
      const canvas = element("canvas", { "aria-hidden": "true", style: "width: 28px; height: 18px" });
      const surface = new Surface(canvas);
      surface.resize(28, 18, window.devicePixelRatio || 1);
      surface.clear();
      draw(surface);
      return element("li", {}, canvas, element("span", {}, text));
    }),
  );
}

/** Which of the buttons are pressed. @param {import("./viewer.js").Viewer} viewer */
export function showState({ isFull, isTime, violations }) {
  const press = (id, isOn) => document.getElementById(id).setAttribute("aria-pressed", String(isOn));
  press("direct", !isFull);
  press("full", isFull);
  press("axis-time", isTime);
  press("axis-depth", !isTime);
  const all = violations.length;
  const next = document.getElementById("violation-next");
  next.textContent = all > 1 ? `Next violation (${count(all)})` : "Show the violation";
  document.getElementById("violation-tools").hidden = !all;
}

/** All of it, for what is selected now. @param {import("./viewer.js").Viewer} viewer */
export function showPanel(viewer) {
  const box = document.getElementById("violation");
  box.hidden = !viewer.violation;
  if (viewer.violation) {
    const { trace: k, number } = viewer.violation;
    const isOpen = box.querySelector("details")?.open;
    box.replaceChildren(...violationBox(viewer.traces[k], number, (event) => viewer.select(k, event)));
    box.querySelector("details").open = isOpen;
  }
  showSelection(viewer);
  if (viewer.pairs) showLockstep(viewer);
}

function showSelection(viewer) {
  const place = document.getElementById("selection");
  if (!viewer.selection) {
    const words = "Select an event by a click or the arrow keys: its arrows, causes and waits are shown here.";
    place.replaceChildren(element("p", { class: "quiet" }, `${words} All keys: ?`));
    return;
  }
  const k = viewer.selection.trace;
  const { trace, selected } = viewer.stages[k];
  const name = trace.messageName(selected.message);
  const text = trace.textOf(viewer.selection.event);
  const title = `${trace.hasEdges ? "Event" : "Message"} ${name}`;
  place.replaceChildren(
    element("h2", {}, viewer.pairs ? `Message ${name} in ${trace.name}` : title),
    ...(text ? [element("p", { id: "text" }, text)] : []),
    element("p", { id: "sentence" }, messageWords(trace, selected)),
    element("p", { class: "quiet", id: "cone-words" }, coneWords(trace, selected.cone)),
    selectionTable(trace, selected, (event) => viewer.select(k, event)),
  );
}

function showLockstep(viewer) {
  const { traces, pairs, selection, stages } = viewer;
  viewer.found ??= differences(traces[0], traces[1], pairs[0]);
  let pair = null;
  if (selection) {
    const trace = traces[selection.trace];
    pair = {
      name: trace.messageName(selection.message),
      node: trace.lanes[trace.lane[selection.event]],
      messages: stages.map((stage) => stage.selected?.message ?? -1),
      events: stages.map((stage) => stage.selected?.event ?? -1),
    };
  }
  const place = document.getElementById("lockstep");
  place.hidden = false;
  place.replaceChildren(...lockstepBox(traces, pair, viewer.found));
}

// Going from event to event: along lanes, messages, witnesses and marks; and keys that change a lane.
import { moveLane } from "./lanes.js";

/**
 * Along the lane by `step`, or by `rows` to the nearest event of another one.
 * @param {import("./viewer.js").Viewer} viewer
 */
export function walk(viewer, step, rows) {
  if (!viewer.selection) return enter(viewer);
  const { trace: k, event } = viewer.selection;
  const { trace, layout } = viewer.stages[k];
  const lane = trace.lane[event];
  if (!rows) {
    const place = trace.place[event] + step;
    if (place >= 0 && place < trace.laneLength(lane)) return viewer.select(k, trace.eventAt(lane, place));
    return viewer.say(`the ${step < 0 ? "first" : "last"} event of ${trace.lanes[lane]}`);
  }
  for (let row = layout.rowOf[lane] + rows; layout.rows[row] !== undefined; row += rows) {
    const other = layout.rows[row];
    if (trace.laneLength(other)) return viewer.select(k, nearestIn(trace, other, trace.position[event]));
  }
  return viewer.say(`no node ${rows < 0 ? "above" : "below"} ${trace.lanes[lane]}`);
}

/** The event of a lane that is nearest to a place on the axis. */
function nearestIn(trace, lane, position) {
  const after = Math.min(trace.firstFrom(lane, position) - trace.laneStart[lane], trace.laneLength(lane) - 1);
  const away = (place) => Math.abs(trace.position[trace.eventAt(lane, place)] - position);
  return trace.eventAt(lane, after > 0 && away(after - 1) < away(after) ? after - 1 : after);
}

/** The first event on the screen. */
function enter(viewer) {
  const { trace, layout } = viewer.stages[0];
  for (const lane of layout.seenLanes) {
    const i = trace.firstFrom(lane, layout.from);
    if (i < trace.laneStart[lane + 1]) return viewer.select(0, trace.laneEvents[i]);
  }
  return viewer.say("no event on the screen");
}

/** Along the witness, if it is in the frame and has the focus; else along the message. */
export function follow(viewer, step) {
  if (!viewer.selection) return enter(viewer);
  const { trace: k, message, event } = viewer.selection;
  const isWitness = viewer.violation?.trace === k && viewer.violationNow.path.includes(event);
  const path = isWitness ? viewer.violationNow.path : [...viewer.traces[k].eventsOf(message)];
  const next = path[path.indexOf(event) + step];
  if (next === undefined) return viewer.say(`the ${step < 0 ? "first" : "last"} event of the path`);
  return viewer.select(k, next);
}

/** To the next crash, join, view, …, or the one before. */
export function nextMark(viewer, step) {
  const all = viewer.traces.flatMap((trace) => trace.marks.map((mark) => ({ trace, mark })));
  if (!all.length) return viewer.say("no marks");
  const known = all.findIndex((one) => one.mark === viewer.focusMark?.mark);
  const at = known >= 0 ? known + step : step > 0 ? 0 : -1;
  viewer.focusMark = all.at(at % all.length);
  const { trace, mark } = viewer.focusMark;
  const [from, to] = viewer.aim;
  const half = Math.max(to - from, (viewer.bounds[1] - viewer.bounds[0]) / 100) / 2;
  const position = viewer.isTime ? mark.time : mark.position;
  viewer.stages[viewer.traces.indexOf(trace)].layout.reveal([mark.lane]);
  if (position < from || position > to) viewer.setWindow(position - half, position + half, { isSmooth: true });
  else viewer.redraw();
  return viewer.say(`${trace.lanes[mark.lane]}: ${mark.kind}. ${mark.text}`);
}

/** Hide or pin the lane of the focus, or move it by a step. @param {"hide" | "pin" | number} change */
export function changeLane(viewer, change) {
  if (!viewer.selection) return viewer.say("select an event first");
  const trace = viewer.traces[viewer.selection.trace];
  const name = trace.lanes[trace.lane[viewer.selection.event]];
  const setting = viewer.lanes.find((one) => one.name === name);
  let words = "moved";
  if (change === "hide") {
    setting.isHidden = !setting.isHidden;
    words = setting.isHidden ? "hidden" : "shown";
  } else if (change === "pin") {
    setting.isPinned = !setting.isPinned;
    words = setting.isPinned ? "pinned" : "not pinned";
  } else if (!moveLane(viewer.lanes, name, change)) words = "cannot move further";
  viewer.onLanes.forEach((tell) => tell());
  return viewer.lanesChanged(`${name}: ${words}`);
}

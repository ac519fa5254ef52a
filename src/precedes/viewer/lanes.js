// The list of nodes: their order, which are hidden, which are pinned.
import { count, counted } from "./words.js";
import { element } from "./panel.js";
import { laneColour } from "./surface.js";

const LISTED_MAX = 200;

/** Names of all traces, each once, in the order of the first trace that has it. */
export function laneSettings(traces) {
  const names = new Set(traces.flatMap((trace) => trace.lanes));
  return [...names].map((name) => ({ name, isHidden: false, isPinned: false }));
}

/** Move a lane past its next neighbour that is drawn in the same part, pinned or not. */
export function moveLane(settings, name, step) {
  const from = settings.findIndex((one) => one.name === name);
  let to = from + step;
  while (settings[to] && (settings[to].isPinned !== settings[from].isPinned || settings[to].isHidden)) to += step;
  if (!settings[to]) return false;
  const [one] = settings.splice(from, 1);
  settings.splice(to, 0, one);
  return true;
}

/**
 * @typedef {object} LaneTools
 * @property {() => any} theme
 * @property {(name: string) => number} numberOf the lane's place before any was moved: its colour
 * @property {(words: string) => void} changed
 */

/**
 * @param {HTMLElement} place @param {import("./layout.js").LaneSetting[]} settings @param {LaneTools} tools
 * @returns {() => void} updates the list
 */
export function fillLanes(place, settings, tools) {
  const filter = element("input", { type: "text", placeholder: "Filter nodes", "aria-label": "Filter nodes" });
  const list = element("ul", { class: "lane-list" });
  const note = element("p", { class: "quiet" });
  const fill = () => {
    const asked = filter.value.trim().toLowerCase();
    const found = settings.filter((one) => one.name.toLowerCase().includes(asked));
    list.replaceChildren(...found.slice(0, LISTED_MAX).map((one) => laneRow(one, settings, tools, change)));
    const hidden = settings.filter((one) => one.isHidden).length;
    const rest = found.length - LISTED_MAX;
    const more = rest > 0 ? ` ${count(rest)} more match: filter to see them.` : "";
    note.textContent = `${counted(settings.length, "node")}, ${count(hidden)} hidden.${more}`;
  };
  // The button that was pressed is another one now, and has the focus again.
  const change = (words, key) => {
    fill();
    tools.changed(words);
    [...list.querySelectorAll("button")].find((one) => one.dataset.key === key)?.focus();
  };
  const every = (text, words, set) => {
    const onclick = () => (settings.forEach(set), change(words));
    return element("button", { type: "button", onclick }, text);
  };
  filter.addEventListener("input", fill);
  const showAll = every("Show all", "all nodes shown", (one) => (one.isHidden = false));
  const unpinAll = every("Unpin all", "no node pinned", (one) => (one.isPinned = false));
  place.replaceChildren(element("div", { class: "lane-tools" }, filter, showAll, unpinAll), list, note);
  fill();
  return fill;
}

function laneRow(one, settings, tools, change) {
  const { name } = one;
  const button = (text, label, key, action, pressed = null) => {
    const words = `${label} ${name}`;
    const shown = { title: words, "aria-label": words, "aria-pressed": pressed, "data-key": `${key} ${name}` };
    return element("button", { type: "button", ...shown, onclick: () => action(`${key} ${name}`) }, text);
  };
  const move = (step) => (key) => {
    if (moveLane(settings, name, step)) change(`${name} moved ${step < 0 ? "up" : "down"}`, key);
  };
  const pin = (key) => {
    one.isPinned = !one.isPinned;
    change(`${name} ${one.isPinned ? "pinned" : "not pinned"}`, key);
  };
  const hide = (key) => {
    one.isHidden = !one.isHidden;
    change(`${name} ${one.isHidden ? "hidden" : "shown"}`, key);
  };
  const colour = laneColour(tools.theme(), tools.numberOf(name));
  return element(
    "li",
    { class: one.isHidden ? "hidden" : null },
    element("span", { class: "swatch", style: `background: ${colour}` }),
    element("span", { class: "name" }, name),
    button("▴", "Move up", "up", move(-1)),
    button("▾", "Move down", "down", move(1)),
    button("Pin", "Pin", "pin", pin, String(one.isPinned)),
    button("Hide", "Hide", "hide", hide, String(one.isHidden)),
  );
}

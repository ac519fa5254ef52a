// Finding a message or a node by its name, and an event by its text.
import { count, counted } from "./words.js";
import { element } from "./panel.js";

const SHOWN_MAX = 20;

/**
 * Matches of a text: equal names first, then names that begin with it, then those that contain it.
 * @param {import("./model.js").Trace[]} traces @param {string} text
 * @returns {{found: {kind: "node" | "message" | "event", trace: number, number: number, name: string}[], more: number}}
 */
export function findNames(traces, text) {
  const asked = text.trim().toLowerCase();
  const ranks = [[], [], []];
  const known = new Set();
  const offer = (kind, trace, number, name) => {
    const at = name.toLowerCase().indexOf(asked);
    const key = `${kind} ${name}`;
    if (at < 0 || known.has(key)) return;
    known.add(key);
    ranks[name.length === asked.length ? 0 : at === 0 ? 1 : 2].push({ kind, trace, number, name });
  };
  if (!asked) return { found: [], more: 0 };
  traces.forEach((trace, k) => {
    trace.lanes.forEach((name, lane) => offer("node", k, lane, name));
    for (let m = 0; m < trace.messages; m += 1) offer("message", k, m, trace.messageName(m));
    trace.texts?.forEach((text, event) => text && offer("event", k, event, text));
  });
  const all = ranks.flat();
  return { found: all.slice(0, SHOWN_MAX), more: Math.max(0, all.length - SHOWN_MAX) };
}

/** @param {import("./model.js").Trace[]} traces @param {(match: object) => void} go */
export function setUpSearch(traces, go) {
  const input = document.getElementById("search");
  const list = document.getElementById("matches");
  let found = [];
  let at = 0;
  const close = () => {
    list.hidden = true;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };
  const mark = () => {
    found.forEach((_, k) => list.children[k].setAttribute("aria-selected", String(k === at)));
    if (found.length) input.setAttribute("aria-activedescendant", `match-${at}`);
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  const choose = (k) => {
    if (!found[k]) return;
    close();
    go(found[k]);
  };
  const fill = () => {
    const answer = findNames(traces, input.value);
    found = answer.found;
    at = 0;
    const items = found.map((match, k) => {
      const trace = traces[match.trace];
      const words = {
        node: () => "node",
        message: () => counted(trace.eventsOf(match.number).length, "event"),
        event: () => trace.lanes[trace.lane[match.number]],
      }[match.kind]();
      const onpointerdown = (press) => (press.preventDefault(), choose(k));
      return element("li", { role: "option", id: `match-${k}`, onpointerdown }, `${match.name} · ${words}`);
    });
    const tell = (text) => items.push(element("li", { class: "none", role: "presentation" }, text));
    if (answer.more) tell(`and ${count(answer.more)} more`);
    if (!items.length) tell("nothing has this name");
    list.replaceChildren(...items);
    list.hidden = !input.value.trim();
    input.setAttribute("aria-expanded", String(!list.hidden));
    mark();
  };
  input.addEventListener("input", fill);
  input.addEventListener("focus", () => input.value.trim() && fill());
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (press) => {
    if (press.key === "Enter") choose(at);
    else if (press.key === "Escape") {
      close();
      document.getElementById("stages").focus();
    } else if (press.key === "ArrowDown" || press.key === "ArrowUp") {
      press.preventDefault();
      at = Math.max(0, Math.min(found.length - 1, at + (press.key === "ArrowDown" ? 1 : -1)));
      mark();
    }
    press.stopPropagation();
  });
}

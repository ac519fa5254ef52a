"use strict";
// What is jumped to is opened, also where a browser does not do so by itself.
const reveal = () => {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  for (let one = target.closest("details"); one; one = one.parentElement.closest("details")) one.open = true;
  target.scrollIntoView({ block: "center" });
};
addEventListener("hashchange", reveal);
reveal();

// A search in the claims of a paper.
for (const list of document.querySelectorAll(".claims")) {
  const label = list.querySelector(".filters label");
  label.hidden = false;
  label.querySelector("input").addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase();
    for (const row of list.querySelectorAll(".claim"))
      row.classList.toggle("unwanted", !row.textContent.toLowerCase().includes(wanted));
  });
}

// What a mark says, below its chart: under the pointer, or walked to with the arrow keys.
for (const chart of document.querySelectorAll("figure svg")) {
  const points = [...chart.querySelectorAll(".point, .dots a")];
  if (!points.length) continue;
  const readout = document.createElement("p");
  readout.className = "readout";
  readout.setAttribute("aria-live", "polite");
  (chart.closest(".frame") ?? chart).after(readout);
  chart.tabIndex = 0;
  let at = -1;
  const show = (place) => {
    points[at]?.classList.remove("on");
    at = place;
    points[at].classList.add("on");
    readout.textContent = points[at].querySelector("title").textContent;
  };
  for (const [place, point] of points.entries()) {
    point.addEventListener("pointerenter", () => show(place));
    point.addEventListener("focus", () => show(place));
  }
  chart.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) {
      event.preventDefault();
      show((Math.max(at, step < 0 ? 0 : -1) + step + points.length) % points.length);
    } else if (event.key === "Enter" && points[at]?.matches("a")) location.hash = points[at].getAttribute("href");
  });
}

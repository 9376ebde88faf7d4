"use strict";

// Tables: each header contains the order of the rows when sorted by its column, as in the console.
for (const table of document.querySelectorAll(".sortable")) {
  const body = table.tBodies[0];
  const asWritten = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  for (const header of headers) {
    header.querySelector("button").addEventListener("click", () => {
      const order = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", order);
      body.append(...header.dataset[order].split(" ").map((row) => asWritten[row]));
    });
  }
}

// The chooser shows one trial at a time. Without scripts, all trials are visible.
const chooser = document.querySelector("#trial");
if (chooser) {
  const show = () => {
    for (const trial of document.querySelectorAll("[data-trial]")) trial.hidden = trial.dataset.trial !== chooser.value;
  };
  chooser.parentElement.hidden = false;
  chooser.addEventListener("change", show);
  show();
}

// Zooming: the picture becomes wider than its frame, which scrolls. Texts and lines keep their size.
const MOST = 64;
const FACTORS = { "+": 1.5, "=": 1.5, "-": 1 / 1.5, 0: 0 };

for (const figure of document.querySelectorAll(".zoomable")) {
  const view = figure.querySelector(".view");
  const picture = view.firstElementChild;
  let scale = 1;

  // at: the point in the frame, from 0 to 1, that keeps its place
  const zoom = (factor, at = 0.5) => {
    const place = (view.scrollLeft + at * view.clientWidth) / scale;
    scale = Math.min(MOST, Math.max(1, scale * factor));
    picture.setAttribute("width", `${100 * scale}%`);
    view.scrollLeft = place * scale - at * view.clientWidth;
  };

  figure.querySelector(".zoomkeys").hidden = false;
  for (const button of figure.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => zoom(FACTORS[button.dataset.zoom]));
  }
  view.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !(event.key in FACTORS)) return;
    event.preventDefault();
    zoom(FACTORS[event.key]);
  });
  // The wheel zooms only a picture that was clicked, or with Ctrl: otherwise scrolling would stop at each picture.
  view.addEventListener(
    "wheel",
    (event) => {
      if (!event.ctrlKey && document.activeElement !== view) return;
      event.preventDefault();
      const frame = view.getBoundingClientRect();
      zoom(FACTORS[event.deltaY < 0 ? "+" : "-"], (event.clientX - frame.left) / frame.width);
    },
    { passive: false },
  );
}

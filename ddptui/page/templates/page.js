"use strict";

// Tables: each header contains the order of the rows when sorted by its column, as in the console.
for (const table of document.querySelectorAll(".sortable")) {
  const body = table.tBodies[0];
  const asWritten = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  for (const header of headers) {
    header.querySelector("button").addEventListener("click", () => {
      const way = header.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      for (const other of headers) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", way);
      body.append(...header.dataset[way].split(" ").map((row) => asWritten[row]));
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

// Zooming: the inner picture becomes wider than its frame and moves within it. Text and lines keep their size.
const MOST = 64;
const FACTOR = 1.5;

class Zoom {
  constructor(figure) {
    this.figure = figure;
    this.view = figure.querySelector(".view");
    this.inner = figure.querySelector(".inner");
    this.scale = 1;
    this.left = 0; // left edge of the visible part, as a fraction of the whole
    const keys = figure.querySelector(".zoomkeys");
    keys.hidden = false;
    keys.addEventListener("click", (event) => this.press(event.target.dataset.zoom));
    this.view.setAttribute("tabindex", "0");
    this.view.setAttribute("role", "group"); // an image takes no keys
    this.view.addEventListener("keydown", (event) => {
      if (!event.ctrlKey && !event.metaKey && !event.altKey && this.press(event.key)) event.preventDefault();
    });
    this.view.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.view.addEventListener("pointerdown", (event) => this.grab(event));
  }

  // at: the point in the frame, from 0 to 1, that keeps its place
  zoom(factor, at = 0.5) {
    const place = this.left + at / this.scale;
    this.scale = Math.min(MOST, Math.max(1, this.scale * factor));
    this.move(place - at / this.scale);
  }

  move(left) {
    this.left = Math.min(1 - 1 / this.scale, Math.max(0, left));
    this.inner.setAttribute("width", `${100 * this.scale}%`);
    this.inner.setAttribute("x", `${-100 * this.scale * this.left}%`);
    this.figure.classList.toggle("zoomed", this.scale > 1);
  }

  // Returns whether the key is one of ours.
  press(key) {
    const step = 0.2 / this.scale;
    const does = {
      "+": () => this.zoom(FACTOR),
      "=": () => this.zoom(FACTOR),
      "-": () => this.zoom(1 / FACTOR),
      "0": () => this.zoom(0),
      ArrowLeft: () => this.move(this.left - step),
      ArrowRight: () => this.move(this.left + step),
    }[key];
    does?.();
    return Boolean(does);
  }

  // The wheel zooms only a picture that was clicked, or with Ctrl: otherwise scrolling would stop at each picture.
  wheel(event) {
    if (!event.ctrlKey && document.activeElement !== this.view) return;
    event.preventDefault();
    const frame = this.view.getBoundingClientRect();
    this.zoom(event.deltaY < 0 ? FACTOR : 1 / FACTOR, (event.clientX - frame.left) / frame.width);
  }

  grab(event) {
    this.view.focus({ preventScroll: true });
    if (this.scale === 1) return;
    const from = { x: event.clientX, left: this.left };
    const width = this.view.getBoundingClientRect().width * this.scale;
    this.view.setPointerCapture(event.pointerId);
    this.view.onpointermove = (moved) => this.move(from.left - (moved.clientX - from.x) / width);
    this.view.onlostpointercapture = () => (this.view.onpointermove = null);
  }
}

for (const figure of document.querySelectorAll(".zoomable")) new Zoom(figure);
for (const hint of document.querySelectorAll("section:has(.zoomable) .zoomhint")) hint.hidden = false;

// Draws a flame graph on a canvas: the outermost frame at the top, callees below their callers.
//
// Used by page.js. Does not depend on profiles: the caller passes widths, texts and colours. Draws
// only the visible rows, so a graph may have any depth.
//
//   const graph = new FlameGraph(scroller, canvas, { onPoint(frame), onZoom(frame) });
//   graph.show({
//     parents, values,
//     text: (frame) => "name", fill: (frame) => [r, g, b], isFaint: (frame) => false,
//   });
//
// Frame 0 is the root. A frame comes after its parent, and its value is at least the sum of its
// children's values. `graph.boxes` has the drawn boxes, for tests.
"use strict";

class FlameGraph {
  static ROW = 19;
  /** Narrower boxes are not drawn, in pixels. */
  static NARROWEST = 0.4;
  static FONT = "12px system-ui, sans-serif";

  boxes = [];
  zoomed = 0;
  pointed = -1;
  focused = 0;
  #frames;
  #starts;
  #depths;
  #rows = 1;
  #scroller;
  #canvas;
  #listener;
  #asked = false;

  constructor(scroller, canvas, listener) {
    this.#scroller = scroller;
    this.#canvas = canvas;
    this.#listener = listener;
    new ResizeObserver(() => this.redraw()).observe(scroller);
    scroller.addEventListener("scroll", () => this.redraw());
    canvas.addEventListener("pointermove", (event) => this.#point(this.#at(event)));
    canvas.addEventListener("pointerleave", () => this.#point(-1));
    canvas.addEventListener("click", (event) => {
      const frame = this.#at(event);
      if (frame >= 0) this.zoom(frame);
    });
    canvas.addEventListener("keydown", (event) => this.#press(event));
    canvas.addEventListener("focus", () => this.#focus(this.zoomed));
    canvas.addEventListener("blur", () => this.redraw());
  }

  /** Shows other frames; the root is zoomed. */
  show(frames) {
    this.#frames = frames;
    this.#layOut();
    this.zoomed = 0;
    this.focused = 0;
    this.pointed = -1;
    this.#scroller.scrollTop = 0;
    this.redraw();
  }

  /** Zooms to a frame, which gets the whole width. */
  zoom(frame) {
    this.zoomed = frame;
    this.focused = frame;
    this.#listener.onZoom(frame);
    this.redraw();
  }

  /** Draws again before the next picture, for example after a change of the colours. */
  redraw() {
    if (this.#asked) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      if (this.#frames) this.#draw();
    });
  }

  /** Computes where each frame starts, as a part of the root's width: the widest sibling first. */
  #layOut() {
    const { parents, values } = this.#frames;
    const count = parents.length;
    const order = Array.from({ length: count }, (_, frame) => frame).sort((one, other) => values[other] - values[one] || one - other);
    const children = Array.from({ length: count }, () => []);
    for (const frame of order) if (frame > 0) children[parents[frame]].push(frame);
    this.#starts = new Float64Array(count);
    this.#depths = new Int32Array(count);
    this.#rows = 1;
    for (let frame = 0; frame < count; frame += 1) {
      let start = this.#starts[frame];
      for (const child of children[frame]) {
        this.#starts[child] = start;
        this.#depths[child] = this.#depths[frame] + 1;
        start += values[child];
      }
      this.#rows = Math.max(this.#rows, this.#depths[frame] + 1);
    }
    this.children = children;
  }

  #draw() {
    const width = this.#scroller.clientWidth;
    const height = this.#scroller.clientHeight;
    const spacer = this.#canvas.parentElement;
    spacer.style.height = `${this.#rows * FlameGraph.ROW}px`;
    const dots = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(width * dots);
    this.#canvas.height = Math.round(height * dots);
    this.#canvas.style.width = `${width}px`;
    this.#canvas.style.height = `${height}px`;
    const context = this.#canvas.getContext("2d");
    context.scale(dots, dots);
    context.font = FlameGraph.FONT;
    context.textBaseline = "middle";
    this.#find(width, height);
    for (const box of this.boxes) this.#drawBox(context, box);
  }

  /** Collects the boxes of the visible rows. */
  #find(width, height) {
    const { parents, values } = this.#frames;
    const top = this.#scroller.scrollTop;
    const from = this.#starts[this.zoomed];
    const whole = values[this.zoomed] || 1;
    const around = new Set();
    for (let frame = parents[this.zoomed]; frame >= 0; frame = parents[frame]) around.add(frame);
    this.boxes = [];
    for (let frame = 0; frame < parents.length; frame += 1) {
      const y = this.#depths[frame] * FlameGraph.ROW - top;
      if (y + FlameGraph.ROW < 0 || y > height) continue;
      const isAround = around.has(frame);
      const x = isAround ? 0 : ((this.#starts[frame] - from) / whole) * width;
      const w = isAround ? width : (values[frame] / whole) * width;
      const isInside = frame === this.zoomed || (this.#depths[frame] > this.#depths[this.zoomed] && x > -0.01 && x + w < width + 0.01);
      if ((isAround || isInside) && w >= FlameGraph.NARROWEST) this.boxes.push({ frame, x, y, w, isAround });
    }
  }

  #drawBox(context, { frame, x, y, w, isAround }) {
    const [r, g, b] = this.#frames.fill(frame);
    const isFaint = isAround || this.#frames.isFaint(frame);
    const h = FlameGraph.ROW - 1;
    context.globalAlpha = isFaint ? 0.35 : 1;
    context.fillStyle = `rgb(${r} ${g} ${b})`;
    context.fillRect(x, y, Math.max(w - (w > 2 ? 1 : 0), FlameGraph.NARROWEST), h);
    context.globalAlpha = 1;
    const hasFocus = document.activeElement === this.#canvas && frame === this.focused;
    if (frame === this.pointed || hasFocus) {
      context.strokeStyle = getComputedStyle(this.#canvas).color;
      context.lineWidth = 2;
      context.strokeRect(x + 1, y + 1, Math.max(w - 3, 1), h - 2);
    }
    if (w < 24) return;
    // A faint box has nearly the colour of the page, so its text has the page's colour.
    const isLight = FlameGraph.luminance([r, g, b]) > 0.179;
    context.fillStyle = isFaint ? getComputedStyle(this.#canvas).color : isLight ? "#000" : "#fff";
    const left = Math.max(x, 0) + 4;
    context.fillText(this.#fit(context, this.#frames.text(frame), x + w - left - 4), left, y + h / 2 + 0.5);
  }

  /** The part of a text that fits into a width. */
  #fit(context, text, width) {
    const all = text.length > 400 ? text.slice(0, 400) : text;
    if (context.measureText(all).width <= width) return all;
    let [fits, not] = [0, all.length];
    while (not - fits > 1) {
      const middle = (fits + not) >> 1;
      if (context.measureText(`${all.slice(0, middle)}…`).width <= width) fits = middle;
      else not = middle;
    }
    return fits > 0 ? `${all.slice(0, fits)}…` : "";
  }

  #at({ offsetX: x, offsetY: y }) {
    const box = this.boxes.find((box) => y >= box.y && y < box.y + FlameGraph.ROW && x >= box.x && x < box.x + box.w);
    return box ? box.frame : -1;
  }

  #point(frame) {
    if (frame === this.pointed) return;
    this.pointed = frame;
    this.#listener.onPoint(frame);
    this.redraw();
  }

  #focus(frame) {
    this.focused = frame;
    const y = this.#depths[frame] * FlameGraph.ROW;
    const { scrollTop, clientHeight } = this.#scroller;
    if (y < scrollTop) this.#scroller.scrollTop = y;
    if (y + FlameGraph.ROW > scrollTop + clientHeight) this.#scroller.scrollTop = y + FlameGraph.ROW - clientHeight;
    this.#listener.onPoint(frame);
    this.redraw();
  }

  #press(event) {
    const parent = this.#frames.parents[this.focused];
    const siblings = this.focused > 0 ? this.children[parent] : [0];
    const place = siblings.indexOf(this.focused);
    const to = {
      ArrowDown: this.children[this.focused][0],
      ArrowUp: this.focused > 0 ? parent : undefined,
      ArrowLeft: siblings[place - 1],
      ArrowRight: siblings[place + 1],
    };
    if (event.key === "Enter" || event.key === " ") this.zoom(this.focused);
    else if (event.key === "Escape") this.zoom(0);
    else if (event.key in to) {
      if (to[event.key] !== undefined) this.#focus(to[event.key]);
    } else return;
    event.preventDefault();
  }

  /** The relative luminance of a colour, as WCAG defines it. */
  static luminance(color) {
    const [r, g, b] = color.map((one) => one / 255).map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }
}

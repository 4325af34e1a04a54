// Which part of the time is on screen: shared by the waterfall, the counters and the overview above them.

const GUTTER = 148; // left of the time axis: names of rows
const MARGIN = 0.015; // of the whole, before its start and after its end
const SHORTEST_NS = 200;

class Timeline {
  constructor(total) {
    this.total = total;
    this.width = 1000;
    this.pointerNs = null; // where the pointer is, for the line through all charts
    this.range = null; // being drawn with the mouse, to zoom into
    this.listeners = [];
    [this.from, this.to] = [this.least, this.most];
  }

  get least() {
    return -MARGIN * this.total;
  }

  get most() {
    return (1 + MARGIN) * this.total;
  }

  onChange(run) {
    this.listeners.push(run);
  }

  changed() {
    for (const run of this.listeners) run();
  }

  x(ns) {
    return GUTTER + ((ns - this.from) / (this.to - this.from)) * (this.width - GUTTER);
  }

  ns(x) {
    return this.from + ((x - GUTTER) / (this.width - GUTTER)) * (this.to - this.from);
  }

  // Nanoseconds of one CSS pixel.
  get scale() {
    return (this.to - this.from) / (this.width - GUTTER);
  }

  set(from, to) {
    const span = Math.min(Math.max(to - from, SHORTEST_NS), this.most - this.least);
    const middle = (from + to) / 2;
    this.from = Math.min(Math.max(middle - span / 2, this.least), this.most - span);
    this.to = this.from + span;
    this.changed();
  }

  zoom(by, at = (this.from + this.to) / 2) {
    this.target = null;
    this.set(at - (at - this.from) * by, at + (this.to - at) * by);
  }

  pan(ns) {
    this.target = null;
    this.set(this.from + ns, this.to + ns);
  }

  // Go there in a short movement, so that the eye can follow.
  show(from, to) {
    const [start, begin] = [{ from: this.from, to: this.to }, performance.now()];
    const target = { from, to };
    this.target = target;
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) {
      this.set(from, to);
      return;
    }
    const step = (now) => {
      if (this.target !== target) return; // something else moves it
      const part = Math.min(1, Math.max(0, (now - begin) / 220));
      const eased = 1 - (1 - part) ** 3;
      this.set(start.from + (from - start.from) * eased, start.to + (to - start.to) * eased);
      if (part < 1) requestAnimationFrame(step);
    };
    requestAnimationFrame(step);
  }

  all() {
    this.show(this.least, this.most);
  }

  // Zoom so that it can be seen in its surroundings.
  focus(from, to) {
    const span = Math.max(to - from, SHORTEST_NS);
    this.show(from - 0.4 * span, to + 0.4 * span);
  }

  // Move only as far as is needed to see it.
  reveal(from, to) {
    const [onScreen, span] = [this.to - this.from, to - from];
    if (span > onScreen * 1.0001 || span < onScreen / 400) this.focus(from, to);
    else if (from < this.from || to > this.to) this.show((from + to - onScreen) / 2, (from + to + onScreen) / 2);
  }
}

// Instants to label, at steps of 1, 2 or 5 times a power of ten.
function ticks(timeline) {
  const least = 90 * timeline.scale;
  const power = 10 ** Math.floor(Math.log10(least));
  const step = [1, 2, 5, 10].map((by) => by * power).find((candidate) => candidate >= least);
  const first = Math.ceil(timeline.from / step);
  const found = [];
  for (let i = first; i * step <= timeline.to; i++) found.push(i * step);
  return { step, at: found };
}

// Drag to pan; with Shift, or on the axis, to choose a range to zoom into; Ctrl and the wheel to zoom.
function gestures(surface, timeline, { axis = 0, click = null, move = null, doubleClick = null }) {
  let drag = null;
  const place = (event) => {
    const box = surface.getBoundingClientRect();
    return { x: event.clientX - box.left, y: event.clientY - box.top };
  };

  surface.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const { x, y } = place(event);
    const choosing = x > GUTTER && (event.shiftKey || y < axis);
    drag = { x, y, from: timeline.from, ns: timeline.ns(x), choosing, moved: false };
    surface.setPointerCapture(event.pointerId);
  });

  surface.addEventListener("pointermove", (event) => {
    const { x, y } = place(event);
    timeline.pointerNs = x >= GUTTER ? timeline.ns(x) : null;
    if (drag && Math.abs(x - drag.x) > 3) drag.moved = true;
    if (drag?.moved) dragged(x, event);
    else move?.(x, y, event);
    timeline.changed();
  });

  function dragged(x) {
    tooltip(null);
    if (drag.choosing) timeline.range = [drag.ns, timeline.ns(Math.max(x, GUTTER))];
    else timeline.pan(drag.from - (x - drag.x) * timeline.scale - timeline.from);
  }

  surface.addEventListener("pointerup", (event) => {
    const [ended, { x, y }] = [drag, place(event)];
    drag = null;
    if (timeline.range) {
      const [from, to] = [...timeline.range].sort((a, b) => a - b);
      timeline.range = null;
      timeline.show(from, to);
    } else if (ended && !ended.moved) click?.(x, y, event);
  });

  surface.addEventListener("pointerleave", () => {
    timeline.pointerNs = null;
    tooltip(null);
    timeline.changed();
  });
  surface.addEventListener("pointercancel", () => {
    drag = timeline.range = null;
  });
  surface.addEventListener("dblclick", (event) => {
    const { x, y } = place(event);
    doubleClick?.(x, y);
  });
  surface.addEventListener("wheel", (event) => wheel(event, timeline, place(event).x), { passive: false });
}

function wheel(event, timeline, x) {
  if (event.ctrlKey || event.metaKey) {
    event.preventDefault();
    timeline.zoom(Math.exp(Math.max(-120, Math.min(120, event.deltaY)) * 0.006), timeline.ns(Math.max(x, GUTTER)));
  } else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
    event.preventDefault();
    timeline.pan((event.deltaX || event.deltaY) * timeline.scale);
  }
}

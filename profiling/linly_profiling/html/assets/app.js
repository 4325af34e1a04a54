// One request on the page: what is selected, what is lit, and who wants to know.

class App {
  constructor(trace) {
    this.trace = trace;
    this.timeline = new Timeline(trace.total);
    this.selected = this.hovered = -1;
    this.marked = null; // by span, true where lit; null: nothing is dimmed
    this.markedSpans = [];
    this.markedLabel = "";
    this.listeners = { select: [], highlight: [], resize: [] };
    this.markCache = new Map();
  }

  on(event, run) {
    this.listeners[event].push(run);
  }

  tell(event) {
    for (const run of this.listeners[event]) run();
  }

  marks(index) {
    if (!this.trace.marks[index]) return [];
    if (!this.markCache.has(index)) this.markCache.set(index, marksOf(this.trace, index));
    return this.markCache.get(index);
  }

  named(name) {
    return this.trace.id.map((_, i) => i).filter((i) => this.trace.name[i] === name);
  }

  select(index, { focus = false, scroll = false } = {}) {
    this.selected = index;
    if (index >= 0) {
      const [from, to] = [this.trace.start[index], this.trace.end[index]];
      if (focus) this.timeline.focus(from, to);
      else this.timeline.reveal(from, to);
    }
    this.tell("select");
    if (scroll) document.getElementById("waterfall").scrollIntoView({ block: "start", behavior: "instant" });
  }

  highlight(spans, label) {
    this.marked = spans.length ? new Uint8Array(this.trace.length) : null;
    for (const i of spans) this.marked[i] = 1;
    this.markedSpans = [...spans].sort((a, b) => this.trace.start[a] - this.trace.start[b] || a - b);
    this.markedLabel = label;
    this.tell("highlight");
  }

  clear() {
    this.selected = -1;
    this.highlight([], "");
    this.tell("select");
  }

  focusSelected() {
    if (this.selected >= 0) this.timeline.focus(this.trace.start[this.selected], this.trace.end[this.selected]);
  }

  step(way, layout) {
    if (!this.trace.length) return;
    const at = this.selected;
    if (at < 0) {
      this.select(this.markedSpans[0] ?? 0);
      return;
    }
    const line = this.marked?.[at] ? this.markedSpans : layout.trackOf[at].spans;
    const next = {
      parent: () => this.trace.parent[at],
      child: () => this.trace.children(at)[0],
      previous: () => line[line.indexOf(at) - 1],
      next: () => line[line.indexOf(at) + 1],
    }[way]();
    if (next !== undefined && next >= 0) this.select(next);
  }
}

function waterfallSection(app) {
  const { timeline } = app;
  const tools = element(
    "div",
    { class: "toolbar" },
    element("p", {
      class: "legend",
      id: "keys",
      text: "Drag to move, Ctrl + wheel or + − to zoom, click for details, [ ] and ↑ ↓ to step.",
    }),
    element(
      "div",
      { class: "buttons" },
      button("−", () => timeline.zoom(1.6), { "aria-label": "zoom out" }),
      button("+", () => timeline.zoom(1 / 1.6), { "aria-label": "zoom in" }),
      button("all", () => timeline.all()),
    ),
  );
  const charts = element("div", { class: "charts" }, minimap(app), pathStrip(app), waterfall(app), counterCharts(app));
  return section("Waterfall", "waterfall", tools, element("div", { class: "split" }, charts, detailsPanel(app)));
}

function showTrace(trace) {
  const app = new App(trace);
  const place = element("main");
  const parts = [
    header,
    adviceSection,
    milestoneSection,
    waterfallSection,
    analysisSection,
    flameSection,
    stageTable,
    spanTable,
  ];
  place.append(...(trace.length ? parts : [header]).map((part) => part(app)).filter(Boolean));
  return { app, place };
}

// Which request to show stands behind the "#", so that a link, and a reload, lead to it.
function requestFromLink(most) {
  const number = Number(/^#request-(\d+)$/.exec(location.hash)?.[1] ?? 1) - 1;
  return number >= 0 && number < most ? number : 0;
}

function start() {
  readTheme();
  const page = document.getElementById("page");
  const requests = readBlock("requests");
  if (!requests.length) {
    page.append(
      element("main", {}, element("h1", { text: "No requests" }), element("p", { text: "This file holds no trace." })),
    );
    return;
  }
  let [current, shown] = [requestFromLink(requests.length), null];
  const several = requests.length > 1;
  const list = several ? requestList(requests, () => current, open) : null;
  const bar = element("div", { class: "top" }, element("span", { class: "brand", text: "linly profiler" }));

  function open(number) {
    current = number;
    const next = showTrace(readTrace(number));
    shown?.place.remove();
    shown = next;
    bar.querySelector(".chooser")?.remove();
    if (several) bar.append(requestChooser(requests, () => current, open));
    page.append(shown.place);
    list?.querySelector(".table").dispatchEvent(new Event("refresh"));
    if (several) history.replaceState(null, "", `#request-${number + 1}`);
    redrawAll();
  }

  function redrawAll() {
    if (!shown) return;
    shown.app.tell("resize");
    shown.app.timeline.changed();
  }

  // Paper is light, and no frame is drawn any more before it is printed.
  function onPaper(is) {
    document.documentElement.classList.toggle("paper", is);
    themed();
    drawNow();
  }

  function themed() {
    readTheme();
    redrawAll();
  }

  page.append(...[bar, list].filter(Boolean));
  open(current);
  new ResizeObserver(redrawAll).observe(page);
  for (const event of ["beforeprint", "afterprint"]) addEventListener(event, () => onPaper(event === "beforeprint"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", themed);
}

// Memory, queue depths and other values over the same time as the waterfall.

const CHART = 44;
const FIRST_COUNTERS = [
  "memory.rss",
  "memory.gpu.used",
  "memory.gpu.reserved",
  "memory.gpu.allocated",
  "kv_cache.bytes",
  "queue.depth",
  "loop.lag_ms",
];

function counterCharts(app) {
  const { trace, timeline } = app;
  const charts = chartsOf(trace);
  if (!charts.length) return null;
  const canvas = element("canvas", { role: "img", "aria-label": charts.map(chartSummary).join("; ") });
  const height = charts.length * CHART;
  const scroller = element(
    "div",
    { class: "scroller counters" },
    element("div", { class: "spacer", style: { height: `${height}px` } }, canvas),
  );
  const redraw = oncePerFrame(() => {
    const shown = Math.min(height, scroller.clientHeight || height);
    const context = sizeCanvas(canvas, timeline.width, shown);
    paintCharts(context, app, charts, scroller.scrollTop, shown);
  });
  gestures(canvas, timeline, {
    move: (x, y, event) => {
      const chart = charts[Math.floor((y + scroller.scrollTop) / CHART)];
      tooltip(chart && x >= GUTTER ? chartHint(chart, timeline.ns(x)) : null, event);
    },
  });
  scroller.addEventListener("scroll", redraw);
  app.on("resize", redraw);
  timeline.onChange(redraw);
  return scroller;
}

// The counters in a fixed order, with their scales. A stage's state is drawn in the stage's bar instead.
function chartsOf(trace) {
  const rows = new Set(trace.rows.map(([name]) => name));
  const rank = ({ name }) => (FIRST_COUNTERS.indexOf(name) + 100) % 100;
  const limits = { "memory.rss": "memory_limit_bytes", "memory.gpu": "gpu_memory_total_bytes" };
  const root = trace.parent.indexOf(-1);
  return trace.counters
    .filter(({ name, track }) => name !== "stage.state" || !rows.has(track))
    .map((counter) => {
      const most = counter.value.reduce((a, b) => Math.max(a, b), -Infinity);
      const least = counter.value.reduce((a, b) => Math.min(a, b), Infinity);
      const key = Object.keys(limits).find((start) => counter.name.startsWith(start));
      const limit = root >= 0 && key ? attrsOf(trace, root)[limits[key]] : null;
      return { ...counter, most, least, limit: limit && most > limit / 2 ? limit : null };
    })
    .filter(({ name, most }) => name !== "queue.depth" || most > 0) // a queue that was always empty says nothing
    .sort((a, b) => rank(a) - rank(b));
}

const CHART_NAMES = {
  "memory.rss": "memory (RSS)",
  "memory.gpu.used": "GPU memory used",
  "memory.gpu.reserved": "GPU reserved",
  "memory.gpu.allocated": "GPU allocated",
  "kv_cache.bytes": "KV cache",
  "loop.lag_ms": "event loop lag",
};

function chartName({ name, track }) {
  if (name === "queue.depth") return `queue of ${visible(track)}`;
  return pick(CHART_NAMES, name) ?? (track ? `${visible(track)} ${visible(name)}` : visible(name));
}

function chartSummary(chart) {
  return `${chartName(chart)}: ${measured(chart.name, chart.least)} to ${measured(chart.name, chart.most)}`;
}

function valueAt(chart, ns) {
  const k = firstAfter(chart.at, ns) - 1;
  return k < 0 ? null : chart.value[k];
}

function chartHint(chart, ns) {
  const value = valueAt(chart, ns);
  return [
    chartName(chart),
    `${value === null ? NOTHING : measured(chart.name, value)} at ${instant(ns)}`,
    `least ${measured(chart.name, chart.least)}, most ${measured(chart.name, chart.most)}`,
    ...(chart.limit ? [`limit ${measured(chart.name, chart.limit)}`] : []),
  ];
}

function paintCharts(context, app, charts, scrolled, height) {
  const { trace, timeline } = app;
  context.save();
  context.translate(0, -scrolled);
  charts.forEach((chart, k) => {
    if ((k + 1) * CHART < scrolled || k * CHART > scrolled + height) return;
    context.save();
    context.translate(0, k * CHART);
    paintChart(context, app, chart);
    context.restore();
  });
  context.restore();
  drawMilestones(context, trace, timeline, 0, height);
  drawPointer(context, timeline, height);
}

// Memory shows its growth, so its scale begins near the least value; the numbers stand beside it.
function scaleOf(chart) {
  const top = Math.max(chart.most, chart.limit ?? -Infinity);
  const floor =
    /bytes|memory/.test(chart.name) && chart.least > 0
      ? chart.least - 0.15 * (top - chart.least)
      : Math.min(0, chart.least);
  const span = top - floor || Math.abs(top) || 1;
  return (value) => CHART - 5 - ((value - floor) / span) * (CHART - 12);
}

function paintChart(context, app, chart) {
  const { trace, timeline } = app;
  const colour = chart.name.startsWith("memory.") ? theme.accent : rowColour(trace, chart.track);
  const y = scaleOf(chart);
  clipToTime(context, timeline, 0, CHART);
  drawGrid(context, timeline, CHART);
  const end = traceSteps(context, timeline, chart, y);
  context.strokeStyle = colour;
  context.lineWidth = 1.5;
  context.stroke();
  context.lineTo(end, CHART);
  context.lineTo(timeline.x(chart.at[0]), CHART);
  context.globalAlpha = 0.18;
  context.fillStyle = colour;
  context.fill();
  context.globalAlpha = 1;
  if (chart.limit) paintLimit(context, timeline, y(chart.limit));
  context.restore();
  paintChartName(context, app, chart);
}

// A value holds until the next. Gives the x at which the line ends.
function traceSteps(context, timeline, chart, y) {
  context.beginPath();
  const first = Math.max(0, firstAfter(chart.at, timeline.from) - 1);
  let [lastX, lastY] = [timeline.x(chart.at[first]), y(chart.value[first])];
  context.moveTo(lastX, lastY);
  for (let k = first + 1; k < chart.at.length; k++) {
    const [x, next] = [timeline.x(chart.at[k]), y(chart.value[k])];
    if (x - lastX >= 0.5) {
      context.lineTo(x, lastY);
      lastX = x;
    }
    context.lineTo(lastX, next);
    lastY = next;
    if (chart.at[k] > timeline.to) break;
  }
  const end = Math.max(lastX, timeline.x(timeline.total));
  context.lineTo(end, lastY);
  return end;
}

function paintLimit(context, timeline, y) {
  context.setLineDash([6, 3]);
  context.strokeStyle = theme.bad;
  context.beginPath();
  context.moveTo(GUTTER, y);
  context.lineTo(timeline.width, y);
  context.stroke();
  context.setLineDash([]);
}

function paintChartName(context, app, chart) {
  const now = app.timeline.pointerNs === null ? null : valueAt(chart, app.timeline.pointerNs);
  context.fillStyle = theme.line;
  context.fillRect(0, CHART - 1, app.timeline.width, 1);
  setFont(context, 11.5, 600);
  context.fillStyle = theme.ink;
  context.fillText(fitted(context, chartName(chart), GUTTER - 20), 14, 14);
  setFont(context, 11);
  context.fillStyle = theme.muted;
  const text = now === null ? `max ${measured(chart.name, chart.most)}` : measured(chart.name, now);
  context.fillText(fitted(context, text, GUTTER - 20), 14, 30);
}

// What the charts have in common: text that fits, the time axis, lines through all of them.

const AXIS = 30;
const widths = new Map();

function textWidth(context, text) {
  const key = `${context.font}|${text}`;
  if (!widths.has(key)) {
    if (widths.size > 20000) widths.clear();
    widths.set(key, context.measureText(text).width);
  }
  return widths.get(key);
}

// The text, its beginning and "…", or nothing where not even two letters fit.
function fitted(context, text, width) {
  if (textWidth(context, text) <= width) return text;
  let [low, high] = [0, text.length];
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (textWidth(context, `${text.slice(0, middle)}…`) <= width) low = middle;
    else high = middle - 1;
  }
  return low >= 2 ? `${text.slice(0, low)}…` : "";
}

function setFont(context, px, weight = 400) {
  context.font = `${weight} ${px}px ${theme.font}`;
  context.textBaseline = "middle";
}

function drawGrid(context, timeline, height) {
  context.fillStyle = theme.line;
  for (const at of ticks(timeline).at) context.fillRect(Math.round(timeline.x(at)), 0, 1, height);
}

function drawAxis(context, timeline, width) {
  context.fillStyle = theme.panel;
  context.fillRect(0, 0, width, AXIS);
  context.fillStyle = theme.line;
  context.fillRect(0, AXIS - 1, width, 1);
  setFont(context, 11);
  context.fillStyle = theme.muted;
  const { step, at } = ticks(timeline);
  for (const ns of at) {
    const x = timeline.x(ns);
    if (x < GUTTER) continue;
    context.fillText(instant(ns, step), x + 4, AXIS - 9);
  }
}

// A vertical line where the pointer is, and the range being chosen.
function drawPointer(context, timeline, height) {
  if (timeline.range) {
    const [x0, x1] = timeline.range.map((ns) => timeline.x(ns)).sort((a, b) => a - b);
    context.globalAlpha = 0.18;
    context.fillStyle = theme.accent;
    context.fillRect(x0, 0, x1 - x0, height);
    context.globalAlpha = 1;
  }
  if (timeline.pointerNs === null) return;
  context.fillStyle = theme.muted;
  context.globalAlpha = 0.55;
  context.fillRect(Math.round(timeline.x(timeline.pointerNs)), 0, 1, height);
  context.globalAlpha = 1;
}

function clipToTime(context, timeline, top, height) {
  context.save();
  context.beginPath();
  context.rect(GUTTER, top, timeline.width - GUTTER, height);
  context.clip();
}

// Dashed lines where the first token, sound and frame came.
function drawMilestones(context, trace, timeline, top, height) {
  context.save();
  context.setLineDash([3, 3]);
  context.strokeStyle = theme.ink;
  context.globalAlpha = 0.6;
  for (const { total_ns: total } of trace.report.milestones) {
    const x = Math.round(timeline.x(total)) + 0.5;
    if (x < GUTTER || x > timeline.width) continue;
    context.beginPath();
    context.moveTo(x, top);
    context.lineTo(x, top + height);
    context.stroke();
  }
  context.restore();
}

// All spans over time: a row for each stage, a lane for what runs side by side, a track for each level of nesting.

function waterfall(app) {
  const { trace, timeline } = app;
  const layout = layTracks(trace);
  const canvas = element("canvas");
  const spacer = element("div", { class: "spacer", style: { height: `${layout.height}px` } }, canvas);
  const scroller = element(
    "div",
    {
      class: "scroller",
      tabindex: "0",
      role: "application",
      id: "waterfall-chart",
      "aria-describedby": "keys",
      "aria-label": `Waterfall of ${plural(trace.length, "span")}`,
    },
    spacer,
  );

  const redraw = oncePerFrame(() => {
    timeline.width = scroller.clientWidth || timeline.width;
    const context = sizeCanvas(canvas, timeline.width, Math.min(layout.height, scroller.clientHeight || layout.height));
    paintWaterfall(context, app, layout, scroller.scrollTop, canvas.clientHeight);
  });

  const find = (x, y) => (y < AXIS || x < GUTTER ? -1 : spanAt(app, layout, x, y + scroller.scrollTop));
  gestures(canvas, timeline, {
    axis: AXIS,
    click: (x, y) => app.select(find(x, y)),
    doubleClick: (x, y) => {
      const i = find(x, y);
      if (i >= 0) timeline.focus(trace.start[i], trace.end[i]);
    },
    move: (x, y, event) => {
      app.hovered = find(x, y);
      canvas.style.cursor = app.hovered >= 0 ? "pointer" : y < AXIS ? "ew-resize" : "grab";
      tooltip(app.hovered >= 0 ? spanHint(app, app.hovered, timeline.ns(x)) : null, event);
    },
  });
  canvas.addEventListener("pointerleave", () => {
    app.hovered = -1;
  });
  scroller.addEventListener("scroll", redraw);
  scroller.addEventListener("keydown", (event) => waterfallKey(app, layout, event));
  app.on("select", () => {
    scrollToSpan(app, layout, scroller);
    redraw();
  });
  app.on("highlight", redraw);
  app.on("resize", redraw);
  timeline.onChange(redraw);
  return scroller;
}

function paintWaterfall(context, app, layout, scrolled, height) {
  const { trace, timeline } = app;
  const rows = layout.rows.filter((row) => row.top + row.height >= scrolled && row.top <= scrolled + height);
  context.save();
  context.translate(0, -scrolled);
  paintRowGrounds(context, layout, rows, timeline.width);
  clipToTime(context, timeline, scrolled, height);
  context.translate(0, scrolled);
  drawGrid(context, timeline, height);
  context.translate(0, -scrolled);
  for (const row of rows) {
    for (const track of row.tracks) {
      if (track.y + TRACK >= scrolled && track.y <= scrolled + height) paintTrack(context, app, track);
    }
  }
  paintArrows(context, app, layout);
  context.restore();
  for (const row of rows) paintRowName(context, app, row);
  context.restore();
  drawMilestones(context, trace, timeline, AXIS, height);
  drawAxis(context, timeline, timeline.width);
  paintFlags(context, trace, timeline);
  drawPointer(context, timeline, height);
}

function paintRowGrounds(context, layout, rows, width) {
  context.fillStyle = theme.row;
  for (const row of rows) {
    if (layout.rows.indexOf(row) % 2) context.fillRect(0, row.top, width, row.height);
  }
}

function paintRowName(context, app, row) {
  const stage = row.tracks.flatMap((track) => track.spans.slice(0, 1)).find((i) => isStage(app.trace, i));
  const names = [visible(row.name)];
  const given = stage === undefined ? "" : labelOf(app.trace, stage);
  if (given && given !== names[0] && row.tracks.length > 1) names.push(given);
  const colour = rowColour(app.trace, row.name);
  context.fillStyle = colour;
  context.fillRect(0, row.top + 1, 4, row.height - 2);
  names.forEach((name, line) => {
    setFont(context, line ? 11 : 12.5, line ? 400 : 600);
    context.fillStyle = line ? theme.muted : theme.ink;
    context.fillText(fitted(context, name, GUTTER - 24), 14, row.top + ROW_PADDING + BAR / 2 + line * 17);
  });
}

// Names of the milestones on the axis, each to the left or right of its line so that they do not cover each other.
function paintFlags(context, trace, timeline) {
  setFont(context, 10.5, 600);
  let taken = -Infinity;
  for (const { name, total_ns: total } of trace.report.milestones) {
    const [x, text] = [timeline.x(total), shortMilestone(name)];
    if (x < GUTTER || x > timeline.width) continue;
    const width = textWidth(context, text) + 8;
    const left = Math.max(x - 1, taken);
    if (left + width > timeline.width || left - x > 90) continue;
    context.fillStyle = theme.ink;
    context.fillRect(left, 2, width, 13);
    context.fillStyle = theme.panel;
    context.fillText(text, left + 4, 9);
    taken = left + width + 2;
  }
}

function shortMilestone(name) {
  return pick({ "first token": "token", "first audio": "audio", "first frame": "frame" }, name) ?? visible(name);
}

function spanHint(app, i, ns) {
  const { trace } = app;
  const took = trace.end[i] - trace.start[i];
  const lines = [
    labelOf(trace, i),
    `${duration(took)} (${share(took, trace.total)} of the request), from ${instant(trace.start[i])}`,
  ];
  if (isStage(trace, i)) lines.splice(1, 0, shortName(trace.name[i]));
  if (trace.outcome[i] !== "ok") lines.push(`${outcomeSign(trace.outcome[i])} ${trace.outcome[i]}`);
  const mark = nearestMark(app, i, ns);
  if (mark) lines.push(mark);
  const attrs = Object.entries(attrsOf(trace, i)).filter(([name]) => !STAGE_FIELDS.has(name));
  for (const [name, value] of attrs.slice(0, 6)) lines.push(`${name}: ${attribute(name, value)}`.slice(0, 120));
  return lines;
}

// What the table of stages shows, and a tooltip need not repeat.
const STAGE_FIELDS = new Set([
  "stage",
  "row",
  "order",
  "wait_in_ns",
  "busy_ns",
  "wait_out_ns",
  "items_in",
  "items_out",
  "first_in_ns",
  "ready_ns",
  "first_out_ns",
  "media_s",
  "lookahead_ms",
  "fallbacks",
]);

function nearestMark(app, i, ns) {
  const reach = 4 * app.timeline.scale;
  for (const { name, at, values } of app.marks(i)) {
    const after = firstAfter(at, ns);
    const k = after > 0 && ns - at[after - 1] < (at[after] ?? Infinity) - ns ? after - 1 : after;
    if (k >= at.length || Math.abs(at[k] - ns) > reach) continue;
    const value = values?.[k] === null || values?.[k] === undefined ? "" : `, ${size(values[k])}`;
    return `${visible(name)} ${k + 1} of ${at.length} at ${instant(at[k])}${name === "token" ? value : ""}`;
  }
  return null;
}

function waterfallKey(app, layout, event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const { timeline } = app;
  const step = 0.12 * (timeline.to - timeline.from);
  const at = timeline.pointerNs ?? undefined;
  const run = {
    ArrowLeft: () => timeline.pan(-step),
    ArrowRight: () => timeline.pan(step),
    "+": () => timeline.zoom(0.7, at),
    "=": () => timeline.zoom(0.7, at),
    "-": () => timeline.zoom(1 / 0.7, at),
    0: () => timeline.all(),
    Home: () => timeline.all(),
    ArrowUp: () => app.step("parent", layout),
    ArrowDown: () => app.step("child", layout),
    "[": () => app.step("previous", layout),
    "]": () => app.step("next", layout),
    Enter: () => app.focusSelected(),
    Escape: () => app.clear(),
  }[event.key];
  if (!run) return;
  event.preventDefault();
  run();
}

// The critical path: for every instant, who the request waited for.

const PATH = 22;

function pathStrip(app) {
  const { trace, timeline } = app;
  const path = trace.report.critical_path;
  if (!path?.intervals?.length) return null;
  const canvas = element("canvas", { class: "path", role: "img", "aria-label": `Critical path: ${pathSummary(path)}` });
  const parts = path.intervals.map((part) => barPart(app, part.label, durationOf(part), part.span_id, part));
  const ends = path.intervals.map((part) => part.end_ns);
  const redraw = oncePerFrame(() => paintPath(sizeCanvas(canvas, timeline.width, PATH), app, parts, ends));
  const at = (x) => (x < GUTTER ? undefined : parts[firstAfter(ends, timeline.ns(x))]);
  gestures(canvas, timeline, {
    click: (x) => {
      const part = at(x);
      if (part?.index !== undefined) app.select(part.index);
    },
    move: (x, y, event) => {
      const part = at(x);
      const inside = part && timeline.ns(x) >= part.interval.start_ns;
      tooltip(inside ? [part.label, `${duration(part.took)}: the request waited for this`] : null, event);
    },
  });
  app.on("resize", redraw);
  timeline.onChange(redraw);
  return canvas;
}

function pathSummary(path) {
  return (path.shares ?? [])
    .map((owner) => visible(`${owner.name} ${share(owner.duration_ns, path.total_ns)}`))
    .join(", ");
}

function paintPath(context, app, parts, ends) {
  const { trace, timeline } = app;
  clipToTime(context, timeline, 0, PATH);
  let taken = -Infinity;
  for (let k = Math.max(0, firstAfter(ends, timeline.from)); k < parts.length; k++) {
    const { interval, index, kind } = parts[k];
    if (interval.start_ns > timeline.to) break;
    const [x0, x1] = [timeline.x(interval.start_ns), timeline.x(interval.end_ns)];
    if (x1 < taken + 0.5) continue;
    taken = x1;
    const colour = index === undefined ? theme.faint : spanColour(trace, index);
    context.fillStyle = kind === "waits" ? hatch(context, colour) : colour;
    context.fillRect(x0, 5, Math.max(0.7, x1 - x0 - (x1 - x0 > 3 ? 0.6 : 0)), PATH - 10);
  }
  context.restore();
  setFont(context, 11.5, 600);
  context.fillStyle = theme.ink;
  context.fillText(fitted(context, "critical path", GUTTER - 24), 14, PATH / 2);
}

// Who the whole request waited for, as one more bar below the milestones.
function pathBar(app) {
  const path = app.trace.report.critical_path;
  if (!path?.shares?.length) return null;
  const parts = path.shares.map((owner) => barPart(app, owner.name, owner.duration_ns, owner.span_id));
  const bar = stackedBar(
    app,
    {
      title: "whole request",
      total: path.total_ns,
      parts,
      note: "on a scale of its own: who it waited for, at every instant",
    },
    path.total_ns,
  );
  bar.id = "critical-path";
  return bar;
}

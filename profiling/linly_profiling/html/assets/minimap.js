// The whole request in a strip, and the part of it that the waterfall shows. Drag or click to go elsewhere.

const MINIMAP = 26;

function minimap(app) {
  const { trace, timeline } = app;
  const canvas = element("canvas", { class: "minimap", "aria-hidden": "true" });
  const ground = document.createElement("canvas");
  let drawn = "";
  const redraw = oncePerFrame(() => {
    const context = sizeCanvas(canvas, timeline.width, MINIMAP);
    const key = `${canvas.width} ${theme.paper}`;
    if (drawn !== key) {
      paintOverview(sizeCanvas(ground, timeline.width, MINIMAP), trace, timeline);
      drawn = key;
    }
    context.drawImage(ground, 0, 0, timeline.width, MINIMAP);
    paintWindow(context, timeline);
  });
  const x = (ns) => GUTTER + ((ns - timeline.least) / (timeline.most - timeline.least)) * (timeline.width - GUTTER);
  const go = (event) => {
    const part = (event.clientX - canvas.getBoundingClientRect().left - GUTTER) / (timeline.width - GUTTER);
    const [middle, half] = [
      timeline.least + part * (timeline.most - timeline.least),
      (timeline.to - timeline.from) / 2,
    ];
    timeline.target = null;
    timeline.set(middle - half, middle + half);
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    go(event);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (event.buttons) go(event);
  });
  canvas.addEventListener("wheel", (event) => wheel(event, timeline, event.offsetX), { passive: false });
  app.on("resize", redraw);
  timeline.onChange(redraw);
  return canvas;

  function paintWindow(context) {
    const [left, right] = [x(timeline.from), x(timeline.to)];
    context.globalAlpha = 0.6;
    context.fillStyle = theme.panel;
    context.fillRect(GUTTER, 0, left - GUTTER, MINIMAP);
    context.fillRect(right, 0, timeline.width - right, MINIMAP);
    context.globalAlpha = 1;
    context.strokeStyle = theme.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left + 0.75, 0.75, Math.max(2, right - left - 1.5), MINIMAP - 1.5);
  }

  function paintOverview(context) {
    const rows = trace.rows.length;
    const high = Math.max(1, (MINIMAP - 6) / Math.max(1, rows));
    for (let i = 0; i < trace.length; i++) {
      const stage = isStage(trace, i);
      const [x0, x1] = [x(trace.start[i]), x(trace.end[i])];
      context.globalAlpha = stage || trace.parent[i] < 0 ? 0.3 : 1;
      context.fillStyle = spanColour(trace, i);
      context.fillRect(x0, 3 + trace.lanes[trace.lane[i]].row * high, Math.max(0.6, x1 - x0), Math.max(1, high - 0.5));
    }
    context.globalAlpha = 1;
    setFont(context, 11);
    context.fillStyle = theme.muted;
    context.fillText(`${duration(timeline.total)} in all`, 14, MINIMAP / 2);
  }
}

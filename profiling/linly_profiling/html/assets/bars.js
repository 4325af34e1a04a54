// The bars of the waterfall, each with what can be seen of its span: kind, outcome, state, marks, name and duration.

function paintTrack(context, app, track) {
  const { trace, timeline } = app;
  const { spans } = track;
  let k = firstEndingAfter(trace, spans, timeline.from);
  if (k > 0 && trace.end[spans[k - 1]] === timeline.from) k--;
  while (k < spans.length) {
    const i = spans[k];
    if (trace.start[i] > timeline.to) break;
    const [x0, x1] = [timeline.x(trace.start[i]), timeline.x(trace.end[i])];
    if (x1 - x0 >= 2) {
      paintSpan(context, app, i, x0, x1, track.y);
      k += 1;
    } else {
      // Narrower than that, all that end within the next pixels are one: the cost is a screen's width, not a trace's.
      const next = Math.max(k + 1, firstEndingAfter(trace, spans, timeline.ns(x0 + 2), k + 1));
      paintMerged(context, app, track, k, next, x0);
      k = next;
    }
  }
}

function paintMerged(context, app, track, first, next, x) {
  const { trace, marked } = app;
  let [trouble, lit] = [false, !marked];
  if (marked || track.troubled) {
    for (let k = first; k < next; k++) {
      const i = track.spans[k];
      trouble ||= trace.outcome[i] === "error";
      lit ||= Boolean(marked?.[i]);
    }
  }
  context.globalAlpha = lit ? 0.85 : 0.2;
  context.fillStyle = trouble ? theme.bad : spanColour(trace, track.spans[first]);
  context.fillRect(x, track.y, marked && lit ? 2 : 1.4, BAR);
  context.globalAlpha = 1;
}

function paintSpan(context, app, i, x0, x1, y) {
  const { trace, timeline, marked } = app;
  const [left, right] = [Math.max(x0, GUTTER - 4), Math.min(x1, timeline.width + 4)];
  const box = { left, y, width: Math.max(1, right - left - (x1 - x0 > 3 ? 0.6 : 0)), height: BAR };
  context.globalAlpha = marked && !marked[i] ? 0.22 : 1;
  const ink = paintGround(context, app, i, box);
  paintOutcome(context, trace.outcome[i], box);
  if (trace.marks[i] && box.width > 8) paintMarks(context, app, i, box, ink);
  paintLabel(context, app, i, box, ink);
  if (i === app.selected || i === app.hovered || marked?.[i]) paintFrame(context, app, i, box);
  context.globalAlpha = 1;
}

// Fills the bar, and says in which colour to write on it.
function paintGround(context, app, i, { left, y, width, height }) {
  const { trace } = app;
  const colour = spanColour(trace, i);
  const alpha = context.globalAlpha;
  context.fillStyle = colour;
  if (isWaiting(trace, i)) {
    context.globalAlpha = alpha * 0.16;
    context.fillRect(left, y, width, height);
    context.globalAlpha = alpha;
    context.fillStyle = hatch(context, colour);
    context.fillRect(left, y, width, height);
    return theme.ink;
  }
  if (!isStage(trace, i)) {
    context.fillRect(left, y, width, height);
    if (trace.level[i] % 2 === 0 && trace.level[i] > 0) {
      context.globalAlpha = alpha * 0.25;
      context.fillStyle = "#ffffff";
      context.fillRect(left, y, width, height);
      context.globalAlpha = alpha;
    }
    return inkOn(colour);
  }
  context.globalAlpha = alpha * 0.22;
  context.fillRect(left, y, width, height);
  context.globalAlpha = alpha;
  paintStates(context, app, i, { left, y, width, height });
  return theme.ink;
}

// A stage is pale while it waits for input, darker while it works, hatched while whoever comes next holds it up.
function paintStates(context, app, i, { left, y, width, height }) {
  const { trace, timeline } = app;
  const states = trace.states.get(rowOf(trace, i));
  if (!states) return;
  const [colour, alpha] = [spanColour(trace, i), context.globalAlpha];
  const until = Math.min(trace.end[i], timeline.to);
  let k = Math.max(0, firstAfter(states.at, Math.max(timeline.from, trace.start[i])) - 1);
  for (; k < states.at.length && states.at[k] < until; k++) {
    if (!states.value[k]) continue;
    const x0 = Math.max(left, timeline.x(Math.max(states.at[k], trace.start[i])));
    const x1 = Math.min(left + width, timeline.x(Math.min(states.at[k + 1] ?? until, until)));
    context.globalAlpha = alpha * (states.value[k] === 1 ? 0.5 : 0.8);
    context.fillStyle = states.value[k] === 1 ? colour : hatch(context, colour);
    if (x1 > x0) context.fillRect(x0, y, Math.max(0.7, x1 - x0), height);
  }
  context.globalAlpha = alpha;
}

function paintOutcome(context, outcome, { left, y, width, height }) {
  if (outcome === "ok" || outcome === OPEN) return;
  const failed = outcome === "error";
  context.strokeStyle = failed ? theme.bad : theme.ink;
  context.lineWidth = failed ? 2 : 1.2;
  context.setLineDash(failed ? [] : [4, 3]);
  context.strokeRect(left + 1, y + 1, Math.max(0.5, width - 2), height - 2);
  context.setLineDash([]);
  if (failed) return;
  context.fillStyle = hatch(context, theme.paper);
  const alpha = context.globalAlpha;
  context.globalAlpha = alpha * 0.55;
  context.fillRect(left, y, width, height);
  context.globalAlpha = alpha;
}

function paintFrame(context, app, i, { left, y, width, height }) {
  const chosen = i === app.selected;
  context.globalAlpha = 1;
  context.strokeStyle = chosen ? theme.accent : theme.ink;
  context.lineWidth = chosen ? 2.5 : 1;
  context.strokeRect(left + 0.5, y + 0.5, Math.max(1, width - 1), height - 1);
}

function outcomeSign(outcome) {
  return pick({ ok: "✓", error: "✗", cancelled: "⊘", open: "…" }, outcome) ?? "!";
}

function paintLabel(context, app, i, box, ink) {
  const { trace } = app;
  // Of a bar that began before what is on screen, the name stands where it can be read.
  const left = Math.max(box.left, GUTTER) + 5;
  const room = box.left + box.width - 5 - left;
  if (room < 12) return;
  const sign = trace.outcome[i] === "ok" ? "" : `${outcomeSign(trace.outcome[i])} `;
  setFont(context, 11.5, isStage(trace, i) ? 600 : 400);
  const text = fitted(context, sign + labelOf(trace, i), room);
  if (!text) return;
  const y = box.y + box.height / 2 + 0.5;
  if (isWaiting(trace, i) || trace.outcome[i] !== "ok") paintHalo(context, ink, text, left, y);
  context.fillStyle = ink;
  context.fillText(text, left, y);
  const [used, took] = [textWidth(context, text) + 8, duration(trace.end[i] - trace.start[i])];
  if (used + textWidth(context, took) > room) return;
  const alpha = context.globalAlpha;
  context.globalAlpha = alpha * 0.75;
  context.fillText(took, left + used, y);
  context.globalAlpha = alpha;
}

// Keeps letters readable on a hatched ground.
function paintHalo(context, ink, text, x, y) {
  context.strokeStyle = ink === theme.ink ? theme.panel : ink === "#ffffff" ? "#10141c" : "#ffffff";
  context.lineWidth = 3;
  context.lineJoin = "round";
  context.strokeText(text, x, y);
}

// Ticks for tokens, chunks and frames; those that fall on one pixel are drawn once.
function paintMarks(context, app, i, { left, y, width, height }, ink) {
  const { timeline } = app;
  context.fillStyle = ink;
  for (const { at } of app.marks(i)) {
    let last = -Infinity;
    for (let k = Math.max(0, firstAfter(at, timeline.from) - 1); k < at.length && at[k] <= timeline.to; k++) {
      const x = timeline.x(at[k]);
      if (x - last < 2) continue;
      last = x;
      if (x >= left - 1 && x <= left + width + 1) context.fillRect(Math.min(x, left + width - 1), y + height - 5, 1, 5);
    }
  }
}

// The arrows from and to the selected span.
function paintArrows(context, app, layout) {
  const { trace, timeline, selected } = app;
  if (selected < 0) return;
  context.strokeStyle = context.fillStyle = theme.accent;
  context.lineWidth = 1.5;
  for (const [, from, fromNs, to, toNs] of trace.flows) {
    if (from !== selected && to !== selected) continue;
    const [x0, y0] = [timeline.x(fromNs), layout.trackOf[from].y + BAR / 2];
    const [x1, y1] = [timeline.x(toNs), layout.trackOf[to].y + BAR / 2];
    const bend = Math.max(12, Math.abs(x1 - x0) / 2);
    context.beginPath();
    context.moveTo(x0, y0);
    context.bezierCurveTo(x0 + bend, y0, x1 - bend, y1, x1, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x1, y1);
    context.lineTo(x1 - 7, y1 - 4);
    context.lineTo(x1 - 7, y1 + 4);
    context.fill();
  }
}

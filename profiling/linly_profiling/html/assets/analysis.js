// What the report knows about tokens, frames and memory, where it was measured.

function analysisSection(app) {
  const { report } = app.trace;
  const panels = [
    ...(report.decode ?? []).map((call) => decodePanel(app, call)),
    report.pacing ? pacingPanel(app, report.pacing) : null,
    report.memory ? memoryPanel(app, report.memory) : null,
  ].filter(Boolean);
  return panels.length
    ? section("Tokens, frames, memory", "analysis", element("div", { class: "panels" }, panels))
    : null;
}

function panel(app, title, spanId, pairs, ...more) {
  const index = app.trace.indexOf.get(spanId);
  const name =
    index === undefined
      ? element("span", { text: title })
      : button(title, () => app.select(index, { scroll: true }), { class: "link" });
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== NOTHING);
  return element(
    "div",
    { class: "panel" },
    element("h3", {}, name),
    element(
      "dl",
      {},
      known.map(([key, value]) => [element("dt", { text: key }), element("dd", { text: value })]),
    ),
    ...more,
  );
}

function spreadText(spread) {
  return spread
    ? `p50 ${duration(spread.p50_ms * 1e6)}, p95 ${duration(spread.p95_ms * 1e6)}, max ${duration(spread.max_ms * 1e6)}`
    : null;
}

function decodePanel(app, call) {
  const prompt =
    call.prompt_tokens === null
      ? null
      : `${plural(call.prompt_tokens, "token")}${call.cached_tokens === null ? "" : `, ${count(call.cached_tokens)} of them cached`}`;
  const trend =
    call.early_ms === null || call.late_ms === null
      ? null
      : `${threeDigits(call.early_ms)} ms at first, ${threeDigits(call.late_ms)} ms in the end${call.slows ? ": it slows" : ""}`;
  const growth =
    call.kv_bytes_per_token === null
      ? null
      : `${size(call.kv_last_bytes)}, ${size(Math.round(call.kv_bytes_per_token))} a token`;
  return panel(
    app,
    `Tokens of ${shortName(call.name)}`,
    call.span_id,
    [
      ["prompt", prompt],
      ["first token", call.first_token_ns === null ? null : `${duration(call.first_token_ns)} after the call`],
      [
        "answer",
        call.tokens === null
          ? null
          : `${plural(call.tokens, "token")}${call.tokens_per_s ? `, ${threeDigits(call.tokens_per_s)} a second` : ""}`,
      ],
      ["between two", spreadText(call.interval)],
      ["a token takes", trend],
      ["KV cache", growth],
    ],
    tokenChart(app, call),
  );
}

// Time before each token as bars, and the KV cache as a line, by the token's number.
function tokenChart(app, { points, span_id: spanId }) {
  if (!points || points.length < 3) return null;
  const index = app.trace.indexOf.get(spanId);
  const gaps = points.map((point) => point.interval_ns);
  const kv = points.map((point) => point.kv_bytes);
  const canvas = element("canvas", { role: "img", "aria-label": "Time before each token" });
  const box = element("div", { class: "chart" }, canvas);
  const most = Math.max(...gaps.filter((gap) => gap !== null), 1);
  const paint = oncePerFrame(() => {
    const [width, height] = [box.clientWidth, 96];
    if (!width) return;
    const context = sizeCanvas(canvas, width, height);
    context.fillStyle = index === undefined ? theme.accent : spanColour(app.trace, index);
    gaps.forEach((gap, k) => {
      const [x, tall] = [(k / gaps.length) * width, ((gap ?? 0) / most) * (height - 20)];
      context.fillRect(x, height - tall, Math.max(0.5, width / gaps.length - 0.5), tall);
    });
    paintKv(context, kv, width, height);
    setFont(context, 11);
    context.fillStyle = theme.muted;
    context.fillText(`time before each token, at most ${duration(most)}`, 2, 8);
  });
  canvas.addEventListener("pointermove", (event) => {
    const k = Math.min(points.length - 1, Math.max(0, Math.floor((event.offsetX / box.clientWidth) * points.length)));
    tooltip(
      [
        `token ${k + 1} of ${points.length}`,
        gaps[k] === null ? "the first" : `${duration(gaps[k])} after the one before it`,
        ...(kv[k] === null ? [] : [`KV cache ${size(kv[k])}`]),
      ],
      event,
    );
  });
  canvas.addEventListener("pointerleave", () => tooltip(null));
  app.on("resize", paint);
  return box;
}

function paintKv(context, kv, width, height) {
  const known = kv.filter((bytes) => bytes !== null);
  if (known.length < 2) return;
  const most = known.reduce((a, b) => Math.max(a, b), 1);
  context.strokeStyle = theme.ink;
  context.lineWidth = 1.5;
  context.beginPath();
  kv.forEach((bytes, k) => {
    if (bytes !== null) context.lineTo(((k + 0.5) / kv.length) * width, height - (bytes / most) * (height - 20));
  });
  context.stroke();
  setFont(context, 11);
  context.fillStyle = theme.ink;
  const text = `— KV cache, ${size(known.at(-1))}`;
  context.fillText(text, width - textWidth(context, text) - 2, 8);
}

function pacingPanel(app, pacing) {
  const stalls = pacing.stalls ?? [];
  const longest = [...stalls].sort((a, b) => durationOf(b) - durationOf(a)).slice(0, 6);
  const links = longest.map((stall) =>
    element(
      "li",
      {},
      button(
        `${duration(durationOf(stall))} at ${instant(stall.start_ns)}`,
        () => {
          app.select(app.trace.indexOf.get(stall.span_id) ?? -1, { scroll: true });
          app.timeline.focus(stall.start_ns, stall.end_ns);
        },
        { class: "link" },
      ),
      element("span", { class: "figure", text: stall.rendering ? "the renderer was at work" : "nothing to render" }),
    ),
  );
  return panel(
    app,
    "Frames",
    pacing.span_ids?.[0],
    [
      [
        "to show",
        pacing.fps === null ? null : `${threeDigits(pacing.fps)} a second, ${threeDigits(pacing.budget_ms)} ms each`,
      ],
      [
        "rendered",
        `${plural(pacing.frames, "frame")}${pacing.effective_fps ? `, ${threeDigits(pacing.effective_fps)} a second at work` : ""}`,
      ],
      ["came", pacing.delivered_fps === null ? null : `${threeDigits(pacing.delivered_fps)} a second, pauses included`],
      ["one takes", spreadText(pacing.render)],
      ["over budget", pacing.over_budget_frames === null ? null : plural(pacing.over_budget_frames, "frame")],
      ["late", pacing.late_frames === null ? null : plural(pacing.late_frames, "frame")],
      ["stalls", stalls.length ? `${count(stalls.length)}: the picture would have stood still; the longest:` : "none"],
    ],
    links.length ? element("ul", { class: "links" }, links) : null,
  );
}

function memoryPanel(app, memory) {
  const peaks = [memory.rss, ...(memory.gpus ?? [])].filter(Boolean);
  if (!peaks.length) return null;
  return element(
    "div",
    { class: "panel" },
    element("h3", { text: "Memory" }),
    peaks.map((peak) => memoryPeak(app, peak)),
  );
}

function memoryPeak(app, peak) {
  const known = [
    ["peak", `${size(peak.peak_bytes)}${peak.at_ns === null ? "" : ` at ${instant(peak.at_ns)}`}`],
    ["of", peak.limit_bytes === null ? null : `${size(peak.limit_bytes)}, ${share(peak.peak_bytes, peak.limit_bytes)}`],
    ["growth", peak.growth_bytes === null ? null : signed(size(peak.growth_bytes))],
    ["meanwhile", (peak.active ?? []).slice(0, 4).map(shortName).join(", ") || null],
    ["measured by", peak.source === "span" ? null : peak.source],
    ["shared", peak.shared ? "with other requests" : null],
  ].filter(([, value]) => value);
  return element(
    "div",
    { class: "group" },
    element("h4", { text: peak.device }),
    peak.limit_bytes ? shareBar(peak.peak_bytes / peak.limit_bytes) : null,
    element(
      "dl",
      {},
      known.map(([key, value]) => [element("dt", { text: key }), element("dd", { text: value })]),
    ),
  );
}

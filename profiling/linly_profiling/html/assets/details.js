// Everything about the selected span.

const MOST_LINKS = 12;

function detailsPanel(app) {
  const [said, body] = [element("p", { class: "unseen", role: "status" }), element("div", { class: "details-body" })];
  const panel = element("aside", { id: "details", "aria-label": "Selected span" }, said, body);
  const refresh = () => {
    const i = app.selected;
    panel.dataset.spanId = i < 0 ? "" : String(app.trace.id[i]);
    said.textContent = i < 0 ? "" : `${labelOf(app.trace, i)}, ${duration(app.trace.end[i] - app.trace.start[i])}`;
    body.replaceChildren(...(i < 0 ? nothingSelected() : spanDetails(app, i)));
  };
  app.on("select", refresh);
  app.on("highlight", refresh);
  refresh();
  return panel;
}

function nothingSelected() {
  return [
    element("h3", { text: "Nothing selected" }),
    element("p", { class: "quiet-word", text: "Click a span, a bar, a piece of advice or a row of a table." }),
    readingHelp(),
    keyHelp(),
  ];
}

function readingHelp() {
  const signs = [
    ["pale", "a stage waits for input"],
    ["half", "it works"],
    ["work", "a span in it"],
    ["waits", "waiting: for a worker, for room, for a lock"],
    ["cancelled", "⊘ cancelled"],
    ["failed", "✗ failed"],
    ["ticks", "tokens, chunks, frames"],
    ["flag", "first token, sound, frame"],
  ];
  return element(
    "ul",
    { class: "reading" },
    signs.map(([kind, text]) => element("li", {}, legendItem(kind, text))),
  );
}

function keyHelp() {
  const keys = [
    ["drag, ← →", "move in time"],
    ["Ctrl + wheel, + −", "zoom"],
    ["Shift + drag", "zoom into a range"],
    ["double click, Enter", "zoom to the span"],
    ["0", "all of it"],
    ["↑ ↓", "parent, first child"],
    ["[ ]", "previous, next"],
    ["Esc", "let go"],
  ];
  return element(
    "dl",
    { class: "keys" },
    keys.map(([key, what]) => [element("dt", {}, element("kbd", { text: key })), element("dd", { text: what })]),
  );
}

function spanDetails(app, i) {
  const { trace } = app;
  const colour = spanVariable(trace, i);
  return [
    element(
      "h3",
      {},
      element("span", { class: "dot", style: { background: colour } }),
      element("bdi", { text: labelOf(trace, i) }),
      trace.outcome[i] === "ok" ? null : outcomePill(trace.outcome[i]),
    ),
    element(
      "p",
      { class: "quiet-word" },
      element("bdi", { text: trace.name[i] }),
      ` · span ${trace.id[i]} · row `,
      element("bdi", { text: rowOf(trace, i) }),
    ),
    element(
      "div",
      { class: "actions" },
      button("zoom to it", () => app.focusSelected()),
      button("all of this name", () => app.highlight(app.named(trace.name[i]), shortName(trace.name[i]))),
      button("let go", () => app.clear()),
    ),
    highlightNote(app),
    facts("Time", timeFacts(trace, i)),
    facts("Memory", memoryFacts(trace, i)),
    facts("GPU", gpuFacts(trace, i)),
    facts(
      "Attributes",
      Object.entries(attrsOf(trace, i)).map(([name, value]) => [name, attributeText(trace, i, name, value)]),
    ),
    ...app.marks(i).map((marks) => markFacts(trace, i, marks)),
    facts("Where", whereFacts(trace, i)),
    spanLinks(app, "Inside", trace.children(i)),
    trace.parent[i] >= 0 ? spanLinks(app, "Part of", [trace.parent[i]]) : null,
  ].filter(Boolean);
}

function highlightNote(app) {
  if (!app.marked) return null;
  return element("p", { class: "note-box", text: `${plural(app.markedSpans.length, "span")} lit: ${app.markedLabel}` });
}

// Name and value pairs; none where nothing was measured.
function facts(title, pairs) {
  const known = pairs.filter(([, value]) => value !== null && value !== undefined && value !== NOTHING);
  if (!known.length) return null;
  return element(
    "div",
    { class: "group" },
    element("h4", { text: title }),
    element(
      "dl",
      {},
      known.map(([name, value]) => [element("dt", { text: name }), element("dd", { text: value })]),
    ),
  );
}

function timeFacts(trace, i) {
  const took = trace.end[i] - trace.start[i];
  const { cpu_ns: cpu } = trace.details[i] ?? {};
  return [
    ["took", `${duration(took)}, ${share(took, trace.total)} of the request`],
    [
      "own",
      trace.children(i).length
        ? `${duration(ownTime(trace, i))} outside of ${plural(trace.children(i).length, "span")} in it`
        : null,
    ],
    ["from", instant(trace.start[i])],
    ["to", instant(trace.end[i])],
    ["CPU", cpu === undefined ? null : `${duration(cpu)}, ${share(cpu, took)}`],
    ["error", trace.details[i]?.error_type],
  ];
}

// Time in which no child was open.
function ownTime(trace, i) {
  let [covered, cursor] = [0, trace.start[i]];
  for (const child of [...trace.children(i)].sort((a, b) => trace.start[a] - trace.start[b])) {
    const [begin, end] = [Math.max(cursor, trace.start[child]), Math.min(trace.end[child], trace.end[i])];
    if (begin < end) [covered, cursor] = [covered + end - begin, end];
  }
  return trace.end[i] - trace.start[i] - covered;
}

function memoryFacts(trace, i) {
  const [before, after, peak] = [trace.rssStart[i], trace.rssEnd[i], trace.rssPeak[i]];
  const growth = before === null || after === null ? null : after - before;
  return [
    ["resident", growth === null ? null : `${size(before)} → ${size(after)} (${signed(size(growth))})`],
    ["peak", peak === null ? null : size(peak)],
  ];
}

function gpuFacts(trace, i) {
  const { cuda } = trace.details[i] ?? {};
  if (!cuda) return [];
  return [
    ["device", `cuda:${cuda.device}`],
    ["time", duration(cuda.time_ns)],
    ["allocated", cuda.allocated_bytes === null ? null : signed(size(cuda.allocated_bytes))],
    ["reserved", cuda.reserved_bytes === null ? null : signed(size(cuda.reserved_bytes))],
    ["peak", size(cuda.peak_bytes)],
    ["shared", cuda.shared ? "other requests used the GPU meanwhile" : null],
  ];
}

function attributeText(trace, i, name, value) {
  const isInstant = isStage(trace, i) && ["first_in_ns", "ready_ns", "first_out_ns"].includes(name);
  return isInstant && typeof value === "number" ? `${instant(value)} after the start` : attribute(name, value);
}

function markFacts(trace, i, { name, at, values }) {
  const gaps = at
    .slice(1)
    .map((time, k) => time - at[k])
    .sort((a, b) => a - b);
  const known = (values ?? []).filter((value) => value !== null);
  const shown = name === "token" ? size : count;
  const spread = gaps.length
    ? `p50 ${duration(quantile(gaps, 0.5))}, p95 ${duration(quantile(gaps, 0.95))}, max ${duration(gaps.at(-1))}`
    : null;
  return facts(`Marks: ${name}`, [
    ["count", count(at.length)],
    ["first", `${duration(at[0] - trace.start[i])} after its start`],
    ["between", spread],
    [
      "rate",
      gaps.length && at.at(-1) > at[0]
        ? `${threeDigits((at.length - 1) / ((at.at(-1) - at[0]) / 1e9))} a second`
        : null,
    ],
    // What belongs to a token is the size of the KV cache after it.
    [name === "token" ? "KV cache" : "value", known.length ? `${shown(known[0])} → ${shown(known.at(-1))}` : null],
  ]);
}

function whereFacts(trace, i) {
  return [
    ["thread", trace.thread[i]],
    ["task", trace.details[i]?.task],
  ];
}

function spanLinks(app, title, spans) {
  if (!spans.length) return null;
  const { trace } = app;
  const ordered = [...spans].sort((a, b) => trace.end[b] - trace.start[b] - (trace.end[a] - trace.start[a]));
  const links = ordered.slice(0, MOST_LINKS).map((i) =>
    element(
      "li",
      {},
      button(labelOf(trace, i), () => app.select(i), { class: "link" }),
      element("span", { class: "figure", text: duration(trace.end[i] - trace.start[i]) }),
    ),
  );
  const more =
    spans.length > MOST_LINKS
      ? element("li", { class: "quiet-word", text: `and ${count(spans.length - MOST_LINKS)} shorter ones` })
      : null;
  return element(
    "div",
    { class: "group" },
    element("h4", { text: title }),
    element("ul", { class: "links" }, links, more),
  );
}

// The wait for the first token, sound and frame as one bar each, on one scale, cut by who owned each part.

function milestoneSection(app) {
  const { report } = app.trace;
  const bars = report.milestones.map((milestone) => ({
    title: milestone.name,
    total: milestone.total_ns,
    parts: milestone.contributions.map((part) => barPart(app, part.label, durationOf(part), part.span_id, part)),
  }));
  const whole = pathBar(app);
  if (!bars.length && !whole) return null;
  const longest = bars.reduce((most, bar) => Math.max(most, bar.total), 1);
  return section(
    "Where the wait came from",
    "milestones",
    element(
      "p",
      { class: "legend" },
      legendItem("work", "work"),
      legendItem("before", "the stage before goes on"),
      legendItem("waits", "waiting"),
    ),
    bars.map((bar) => stackedBar(app, bar, longest)),
    whole,
  );
}

function legendItem(kind, text) {
  return element(
    "span",
    {},
    element("span", { class: `swatch ${kind}`, "aria-hidden": "true" }),
    element("span", { text }),
  );
}

function barPart(app, label, took, spanId, interval = null) {
  const index = app.trace.indexOf.get(spanId);
  const kind = /: waits for /.test(label) ? "waits" : /: goes on until /.test(label) ? "before" : "work";
  return {
    label,
    took,
    index,
    kind,
    interval,
    colour: index === undefined ? "var(--row-0)" : spanVariable(app.trace, index),
  };
}

function stackedBar(app, { title, total, parts, note }, longest) {
  const width = Math.max(4, (100 * total) / longest);
  const bar = element(
    "div",
    { class: "bar", style: { width: `${width}%` } },
    parts.map((part) => barSegment(app, part, total, width)),
  );
  const noted = parts.filter((part) => part.took >= 0.005 * total);
  const rest = parts.filter((part) => part.took < 0.005 * total).reduce((sum, part) => sum + part.took, 0);
  const keys = noted.map((part) => barKey(app, part, total));
  if (rest > 0) keys.push(element("li", { text: `all smaller parts ${duration(rest)}` }));
  return element(
    "div",
    { class: "milestone", data: { milestone: title } },
    element(
      "div",
      { class: "milestone-title" },
      element("strong", { text: title }),
      element("span", { text: duration(total) }),
    ),
    element(
      "div",
      {},
      bar,
      note ? element("p", { class: "note", text: note }) : null,
      element("ul", { class: "bar-keys" }, keys),
    ),
  );
}

function barSegment(app, part, total, width) {
  const percent = total ? (100 * part.took) / total : 0;
  const made = button("", () => openPart(app, part), {
    class: `segment ${part.kind}`,
    "aria-label": visible(`${part.label}, ${duration(part.took)}, ${share(part.took, total)}`),
    style: { width: `${percent}%`, "--colour": part.colour, "--on": segmentInk(app, part) },
    tabindex: percent < 0.5 ? "-1" : "0",
  });
  if (percent * width >= 560) made.append(element("span", { text: `${duration(part.took)}` }));
  return hint(made, () => [
    part.label,
    `${duration(part.took)}, ${share(part.took, total)} of ${duration(total)}`,
    ...(part.interval ? [`from ${instant(part.interval.start_ns)} to ${instant(part.interval.end_ns)}`] : []),
    ...(part.index === undefined ? [] : ["click: its span in the waterfall"]),
  ]);
}

function segmentInk(app, part) {
  return part.kind === "work"
    ? inkOn(theme.rows[part.index === undefined ? 0 : spanNumber(app.trace, part.index)])
    : "var(--ink)";
}

function barKey(app, part, total) {
  return element(
    "li",
    {},
    element("span", { class: `swatch ${part.kind}`, style: { "--colour": part.colour } }),
    button(part.label, () => openPart(app, part), { class: "link" }),
    element("span", { class: "figure", text: `${duration(part.took)} · ${share(part.took, total)}` }),
  );
}

function openPart(app, part) {
  if (part.index === undefined) return;
  app.select(part.index, { scroll: true });
  if (part.interval) app.timeline.reveal(part.interval.start_ns, part.interval.end_ns);
}

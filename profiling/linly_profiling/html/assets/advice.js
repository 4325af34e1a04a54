// What to do: each piece of advice with its evidence, and the spans that show it one click away.

const SEVERITIES = { high: ["▲", "high"], medium: ["◆", "medium"], low: ["●", "low"] };

function adviceSection(app) {
  const { advice } = app.trace.report;
  if (!Array.isArray(advice)) return null;
  const minor = advice.filter((item) => item.severity === "low");
  const cards = advice.filter((item) => item.severity !== "low").map((item) => adviceCard(app, item));
  const nothing = element("p", {
    class: "quiet-word",
    text: "Nothing stands out: no rule found a bottleneck in this request.",
  });
  return section(
    "What to do",
    "advice",
    cards.length ? element("ol", { class: "cards" }, cards) : null,
    minor.length
      ? element(
          "div",
          { class: "minor" },
          minor.map((item) => minorAdvice(app, item)),
        )
      : null,
    advice.length ? null : nothing,
  );
}

// What costs little takes one line until it is asked for.
function minorAdvice(app, item) {
  return element(
    "details",
    { data: { rule: item.rule ?? "" } },
    element(
      "summary",
      {},
      element("span", { class: "badge", text: "● low" }),
      element("span", { text: item.title ?? item.rule ?? "" }),
      item.cost_ns ? element("span", { class: "cost", text: duration(item.cost_ns) }) : null,
    ),
    adviceBody(app, item),
  );
}

function adviceCard(app, item) {
  const [sign, severity] = pick(SEVERITIES, item.severity) ?? ["●", visible(item.severity ?? "note")];
  const cost = item.cost_ns ? element("span", { class: "cost", text: `costs ${duration(item.cost_ns)}` }) : null;
  return element(
    "li",
    { class: `card ${severity}`, data: { rule: item.rule ?? "" } },
    element("div", { class: "card-head" }, element("span", { class: "badge", text: `${sign} ${severity}` }), cost),
    element("h3", { text: item.title ?? item.rule ?? "" }),
    adviceBody(app, item),
  );
}

function adviceBody(app, item) {
  const spans = (item.span_ids ?? []).map((id) => app.trace.indexOf.get(id)).filter((i) => i !== undefined);
  return [
    item.evidence ? element("p", {}, prose(item.evidence)) : null,
    item.remedy
      ? element("p", { class: "remedy" }, element("strong", { text: "What helps: " }), prose(item.remedy))
      : null,
    spans.length ? evidenceLinks(app, item, spans) : null,
  ];
}

function evidenceLinks(app, item, spans) {
  const show = (i) => {
    app.highlight(spans, item.title ?? item.rule ?? "advice");
    app.select(i, { focus: true, scroll: true });
  };
  const links = spans.slice(0, 4).map((i) =>
    button(`${labelOf(app.trace, i)} ${duration(app.trace.end[i] - app.trace.start[i])}`, () => show(i), {
      class: "chip",
      data: { spanId: app.trace.id[i] },
    }),
  );
  const more =
    spans.length > 4
      ? element("span", { class: "quiet-word", text: `and ${spans.length - 4} more, step with [ and ]` })
      : null;
  return element("div", { class: "evidence" }, element("span", { class: "quiet-word", text: "see " }), links, more);
}

// A file of several requests: a row for each, and a way from one to the next.

function requestList(requests, current, open) {
  const time = (title, value) => ({ title, value, text: (row) => duration(value(row)) });
  const rows = requests.map((request, number) => ({ ...request, number }));
  const longest = Math.max(1, ...rows.map((row) => row.wall_ns));
  const columns = [
    { title: "#", value: (row) => row.number + 1 },
    { title: "request", left: true, value: (row) => row.request_id, text: (row) => row.request_id || "(no name)" },
    {
      title: "outcome",
      left: true,
      value: (row) => row.outcome,
      text: (row) => `${outcomeSign(row.outcome)} ${row.outcome}`,
    },
    {
      title: "started",
      value: (row) => row.started_unix_ms,
      text: (row) => wallClock(row.started_unix_ms).slice(0, 19),
    },
    time("first token", (row) => row.milestones["first token"]),
    time("first audio", (row) => row.milestones["first audio"]),
    time("first frame", (row) => row.milestones["first frame"]),
    { ...time("wall", (row) => row.wall_ns), bar: (row) => row.wall_ns / longest },
    { title: "media", value: (row) => row.media_s, text: (row) => seconds(row.media_s) },
    { title: "RTF", value: (row) => row.real_time_factor, text: (row) => factor(row.real_time_factor) },
    { title: "peak memory", value: (row) => row.rss_peak_bytes, text: (row) => size(row.rss_peak_bytes) },
    { title: "spans", value: (row) => row.spans, text: (row) => count(row.spans) },
  ].filter(
    (column) => column.left || rows.some((row) => column.value(row) !== null && column.value(row) !== undefined),
  );
  return section(
    `${count(requests.length)} requests`,
    "requests",
    requestFigures(rows),
    sortableTable({
      caption: "Requests",
      columns,
      rows,
      open: (row) => open(row.number),
      isCurrent: (row) => row.number === current(),
    }),
  );
}

// Median and 95th percentile over all requests (nearest rank).
function requestFigures(rows) {
  const figures = [
    ...["first token", "first audio", "first frame"].map((name) => [name, (row) => row.milestones[name]]),
    ["wall", (row) => row.wall_ns],
  ].map(([name, value]) => [
    name,
    rows
      .map(value)
      .filter((ns) => ns !== undefined && ns !== null)
      .sort((a, b) => a - b),
  ]);
  const texts = figures
    .filter(([, values]) => values.length > 1)
    .map(([name, values]) => `${name} p50 ${duration(quantile(values, 0.5))}, p95 ${duration(quantile(values, 0.95))}`);
  return element("p", { class: "legend", text: texts.join(" · ") });
}

function requestChooser(requests, current, open) {
  const select = element(
    "select",
    { id: "chooser", "aria-label": "Request", on: { change: () => open(select.selectedIndex) } },
    requests.map((request, i) =>
      element("option", {
        value: String(i),
        text: `${i + 1}: ${request.request_id || "(no name)"} ${outcomeSign(request.outcome)}`,
      }),
    ),
  );
  select.selectedIndex = current();
  const go = (by) => open((current() + by + requests.length) % requests.length);
  return element(
    "div",
    { class: "chooser" },
    button("‹", () => go(-1), { "aria-label": "previous request" }),
    select,
    button("›", () => go(1), { "aria-label": "next request" }),
  );
}

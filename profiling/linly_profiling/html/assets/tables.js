// The stages, and all spans by name.

function stageTable(app) {
  const { trace } = app;
  const { stages } = trace.report;
  if (!stages.length) return null;
  const busiest = Math.max(...stages.map((stage) => stage.busy_ns ?? 0), 1);
  const time = (title, field, note) => ({
    title,
    note,
    value: (stage) => stage[field],
    text: (stage) => duration(stage[field]),
  });
  const columns = [
    { title: "stage", left: true, value: (s) => s.name, colour: (s) => rowVariable(trace, s.row) },
    { title: "outcome", left: true, value: (s) => s.outcome, text: (s) => `${outcomeSign(s.outcome)} ${s.outcome}` },
    time("wall", "wall_ns", "length of its span"),
    { ...time("busy", "busy_ns", "at work"), bar: (s) => (s.busy_ns ?? 0) / busiest },
    time("waits in", "wait_in_ns", "without input"),
    time("waits out", "wait_out_ns", "held up by whoever comes next"),
    time("queue", "queue_ns", "in the queue of its worker"),
    { title: "in", value: (s) => s.items_in, text: (s) => count(s.items_in) },
    { title: "out", value: (s) => s.items_out, text: (s) => count(s.items_out) },
    time("first out", "first_after_ns", "from the start of the request"),
    { title: "media", value: (s) => s.media_s, text: (s) => seconds(s.media_s) },
    {
      title: "RTF",
      note: "seconds at work per second of media",
      value: (s) => s.real_time_factor,
      text: (s) => factor(s.real_time_factor),
    },
    { title: "peak RSS", value: (s) => s.rss_peak_bytes, text: (s) => size(s.rss_peak_bytes) },
    time("GPU", "cuda_ns", "GPU time of its spans"),
  ].filter((column) => column.left || stages.some((s) => column.value(s) !== null && column.value(s) !== undefined));
  return section(
    "Stages",
    "stages",
    sortableTable({
      caption: "Stages in the order of the chain",
      columns,
      rows: stages,
      open: (stage) => app.select(trace.indexOf.get(stage.span_id) ?? -1, { scroll: true }),
    }),
    element("ul", { class: "notes" }, stageNotes(stages)),
  );
}

function stageNotes(stages) {
  return stages
    .flatMap((stage) => [
      ...(stage.waits ?? [])
        .filter((wait) => wait.busy_with)
        .map(
          (wait) =>
            `${stage.name} waited ${duration(wait.duration_ns)} for ${wait.worker ?? "a worker"}, busy with ${wait.busy_with}`,
        ),
      ...(stage.fallbacks ?? []).map(
        (fall) =>
          `${stage.name} fell back from ${fall.from ?? "?"} to ${fall.to ?? "?"}${fall.error ? ` after ${fall.error}` : ""}`,
      ),
      ...(stage.retries ? [`${stage.name} was tried again ${plural(stage.retries, "time")}`] : []),
    ])
    .map((text) => element("li", { text }));
}

function spanTable(app) {
  const { trace } = app;
  const rows = trace.by_name.map(([name, spans, total, self, wait, p50, p95, max, failed]) => ({
    name,
    spans,
    total,
    self,
    wait,
    p50,
    p95,
    max,
    failed,
  }));
  const longest = Math.max(1, ...rows.slice(0, 1000).map((row) => row.self - row.wait));
  const time = (title, field, note) => ({
    title,
    note,
    value: (row) => row[field],
    text: (row) => duration(row[field]),
  });
  const columns = [
    { title: "span", left: true, value: (row) => row.name, text: (row) => shortName(row.name) },
    { title: "count", value: (row) => row.spans, text: (row) => count(row.spans) },
    {
      title: "failed",
      note: "ended otherwise than ok",
      value: (row) => row.failed,
      text: (row) => (row.failed ? count(row.failed) : "0"),
    },
    time("total", "total"),
    {
      title: "own work",
      note: "time with no span inside, less known waiting",
      value: (row) => row.self - row.wait,
      text: (row) => duration(row.self - row.wait),
      bar: (row) => (row.self - row.wait) / longest,
    },
    time("waiting", "wait", "waits for input, room, a worker or a lock"),
    time("p50", "p50"),
    time("p95", "p95"),
    time("max", "max"),
  ];
  return section(
    "Spans by name",
    "spans",
    sortableTable({
      caption: "Spans by name",
      columns,
      rows,
      by: 4,
      open: (row) => openName(app, row.name),
    }),
  );
}

function openName(app, name) {
  const spans = app.named(name);
  app.highlight(spans, shortName(name));
  const { trace } = app;
  const longest = spans.reduce(
    (best, i) => (best < 0 || trace.end[i] - trace.start[i] > trace.end[best] - trace.start[best] ? i : best),
    -1,
  );
  app.select(longest, { scroll: true });
}

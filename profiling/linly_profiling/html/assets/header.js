// What a reader wants to know first: which request, how it ended, how long everything took.

function header(app) {
  const { trace } = app;
  const { report } = trace;
  const facts = [`started ${wallClock(trace.started_unix_ms)}`, plural(trace.length, "span")];
  if (trace.trace_id) facts.push(`trace ${visible(trace.trace_id)}`);
  return element(
    "header",
    { class: "request" },
    element(
      "div",
      { class: "headline" },
      element(
        "h1",
        {},
        element("span", { class: "quiet-word", text: "request " }),
        element("bdi", { text: trace.request_id || "(no name)" }),
      ),
      outcomePill(trace.ended),
    ),
    element("p", { class: "facts", text: facts.join(" · ") }),
    trace.dropped
      ? element("p", {
          class: "warning",
          text: `Incomplete: ${plural(trace.dropped, "record was", "records were")} dropped.`,
        })
      : null,
    element("dl", { class: "tiles" }, tiles(report, trace)),
    verdict(trace),
  );
}

function outcomePill(outcome) {
  return element("span", {
    class: `pill ${pick(OUTCOME_CLASSES, outcome) ?? "odd"}`,
    text: `${outcomeSign(outcome)} ${outcome}`,
  });
}

const OUTCOME_CLASSES = { ok: "ok", error: "error", cancelled: "cancelled", open: "odd" };

function tiles(report, trace) {
  const reached = new Map(report.milestones.map((milestone) => [milestone.name, milestone]));
  const milestone = (name, title) => {
    const found = reached.get(name);
    return found ? tile(title, duration(found.total_ns), topNote(found)) : null;
  };
  const made = [
    milestone("first token", "first token"),
    milestone("first audio", "first audio"),
    milestone("first frame", "first frame"),
    tile("wall time", duration(report.wall_ns), report.media_s ? `for ${seconds(report.media_s)} of media` : ""),
    report.real_time_factor === null
      ? null
      : tile("real-time factor", factor(report.real_time_factor), realTime(report.real_time_factor)),
    report.av_offset_ms === null
      ? null
      : tile("A/V offset", `${signed(report.av_offset_ms.toFixed(0))} ms`, offsetNote(report.av_offset_ms)),
    ...memoryTiles(trace),
  ];
  return made.filter(Boolean);
}

function tile(title, value, note, bad = false) {
  return element(
    "div",
    { class: bad ? "tile bad" : "tile" },
    element("dt", { text: title }),
    element("dd", { text: value }),
    note ? element("dd", { class: "note", text: note, title: visible(note) }) : null,
  );
}

function topNote(milestone) {
  const top = largest(milestone);
  return top ? `${share(durationOf(top), milestone.total_ns)} ${top.label}` : "";
}

function durationOf(part) {
  return part.end_ns - part.start_ns;
}

function largest(milestone) {
  return milestone.contributions.reduce(
    (best, part) => (!best || durationOf(part) > durationOf(best) ? part : best),
    null,
  );
}

function realTime(value) {
  return value <= 1 ? `${threeDigits(1 / value)}× faster than it plays` : "slower than it plays";
}

function offsetNote(ms) {
  return ms === 0 ? "sound and picture together" : ms > 0 ? "the picture is late" : "the sound is late";
}

// From the analysis of memory where the report has one, else from the spans.
function memoryTiles(trace) {
  const { memory } = trace.report;
  if (memory) return [memory.rss, ...(memory.gpus ?? [])].filter(Boolean).map(memoryTile);
  const peak = trace.rssPeak.reduce((most, value) => Math.max(most, value ?? 0), 0);
  return peak ? [tile("peak memory", size(peak), "resident, whole process")] : [];
}

function memoryTile(peak) {
  const title = peak.device === "process" ? "peak memory" : `peak ${peak.device}`;
  const note = peak.limit_bytes
    ? `${share(peak.peak_bytes, peak.limit_bytes)} of ${size(peak.limit_bytes)}`
    : "no limit known";
  return tile(title, size(peak.peak_bytes), note, peak.share !== null && peak.share >= 0.95);
}

// The one sentence: what was waited for most, on the way to the last thing that the user waits for.
function verdict(trace) {
  const milestone = trace.report.milestones.at(-1);
  const top = milestone && largest(milestone);
  if (!top) return null;
  return element(
    "p",
    { class: "verdict" },
    element("span", { text: `The ${milestone.name} came after ` }),
    element("strong", { text: duration(milestone.total_ns) }),
    element("span", {
      text: `; the largest part of that, ${duration(durationOf(top))} (${share(durationOf(top), milestone.total_ns)}), is `,
    }),
    element("strong", { text: top.label }),
    ".",
  );
}

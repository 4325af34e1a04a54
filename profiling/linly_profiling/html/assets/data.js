// The data of one request, from the columns that `pack.py` writes. Times are nanoseconds after its start.

const OPEN = "open";

function readBlock(name) {
  return JSON.parse(document.getElementById(name).textContent);
}

function readTrace(number) {
  const packed = readBlock(`request-${number}`);
  const { spans, names } = packed;
  const trace = {
    ...packed,
    ended: packed.outcome,
    length: spans.id.length,
    id: fromSteps(spans.id),
    parent: spans.parent,
    name: spans.name.map((name) => names[name]),
    start: fromSteps(spans.start),
    end: [],
    outcome: spans.outcome.map((name) => names[name]),
    thread: spans.thread.map((name) => names[name]),
    lane: spans.lane,
    level: spans.level,
    rssStart: fromSteps(spans.rss_start),
    rssEnd: fromSteps(spans.rss_end),
    rssPeak: fromSteps(spans.rss_peak),
    counters: packed.counters.map((counter) => ({ ...counter, at: fromSteps(counter.at) })),
  };
  trace.end = trace.start.map((start, i) => start + spans.duration[i]);
  trace.indexOf = new Map(trace.id.map((id, i) => [id, i]));
  trace.total = trace.end.reduce((most, end) => Math.max(most, end), 1);
  trace.lanes = packed.rows.flatMap(([name, lanes], row) => Array.from({ length: lanes }, () => ({ name, row })));
  trace.children = childrenOf(trace);
  trace.states = stageStates(trace);
  restoreRows(trace.report);
  return trace;
}

// The lists that come as columns, as objects again.
function restoreRows(report) {
  for (const call of report.decode ?? []) call.points = rowsOf(call.points);
  if (report.critical_path) report.critical_path.intervals = rowsOf(report.critical_path.intervals);
}

function rowsOf(columns) {
  if (!columns || Array.isArray(columns)) return columns ?? [];
  const names = Object.keys(columns);
  return columns[names[0]].map((_, i) => Object.fromEntries(names.map((name) => [name, columns[name][i]])));
}

function fromSteps(steps) {
  let value = 0;
  return steps.map((step) => (step === null ? null : (value += step)));
}

function childrenOf(trace) {
  const children = new Map();
  trace.parent.forEach((parent, i) => {
    if (parent < 0) return;
    if (!children.has(parent)) children.set(parent, []);
    children.get(parent).push(i);
  });
  return (index) => children.get(index) ?? [];
}

// Where stages waited and worked, by row; drawn inside the bars of the stages.
function stageStates(trace) {
  const states = new Map();
  for (const counter of trace.counters) if (counter.name === "stage.state") states.set(counter.track, counter);
  return states;
}

function rowOf(trace, index) {
  return trace.lanes[trace.lane[index]].name;
}

function isStage(trace, index) {
  return trace.name[index] === "linly.stage" || trace.name[index].startsWith("linly.stage ");
}

function isWaiting(trace, index) {
  return /(^linly\.queue\.wait|\.lock|lock\.wait)$/.test(trace.name[index]);
}

function attrsOf(trace, index) {
  return trace.details[index]?.attrs ?? {};
}

// What a bar is called: stages by the name that their user gave them.
function labelOf(trace, index) {
  if (isStage(trace, index)) return visible(attrsOf(trace, index).stage || trace.name[index]);
  return shortName(trace.name[index]);
}

// Number and time of every mark of a span, by name.
function marksOf(trace, index) {
  const groups = trace.marks[index] ?? [];
  return groups.map(([name, steps, values]) => ({
    name: trace.names[name],
    at: fromSteps(steps).map((after) => after + trace.start[index]),
    values,
  }));
}

// First of `spans` (ordered, without overlaps) that ends after `ns`.
function firstEndingAfter(trace, spans, ns, low = 0) {
  let high = spans.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (trace.end[spans[middle]] > ns) high = middle;
    else low = middle + 1;
  }
  return low;
}

// First index of an ascending list whose value is above `ns`.
function firstAfter(times, ns) {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle] > ns) high = middle;
    else low = middle + 1;
  }
  return low;
}

function quantile(sorted, part) {
  return sorted.length ? sorted[Math.max(0, Math.ceil(part * sorted.length) - 1)] : null;
}

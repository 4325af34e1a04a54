// Two real trace viewers without a browser: Perfetto's trace processor (WebAssembly) and the importer of
// chrome://tracing (catapult). Each lives in a context of its own, in which nothing says that this is Node.
//
// A request is a byte that names the viewer, a length (32 bits, little-endian) and that many bytes; its answer is a
// length and bytes. The process ends with its input.
"use strict";

const fs = require("node:fs");
const path = require("node:path");
const vm = require("node:vm");

const folder = process.argv[2]; // the static files of Perfetto's web page
const log = new console.Console(process.stderr);

// Takes TraceProcessorRpcStream messages and gives such messages, as the page sends them to its web worker.
async function perfetto() {
  const context = vm.createContext({
    console: log,
    performance,
    crypto,
    WorkerGlobalScope: class {},
    location: { href: "" },
    XMLHttpRequest: FileRequest,
  });
  context.self = context;
  const file = path.join(folder, "engine_bundle.js");
  vm.runInContext(fs.readFileSync(file, "utf8"), context, { filename: file });
  const replies = [];
  const port = { postMessage: (data) => replies.push(Buffer.from(data)) };
  context.onmessage({ data: port });
  await new Promise(setImmediate); // it is ready once its promises have run
  const Bytes = vm.runInContext("Uint8Array", context);
  return (data) => {
    port.onmessage({ data: Bytes.from(data) });
    return Buffer.concat(replies.splice(0));
  };
}

// How a web worker reads a file that lies beside it.
class FileRequest {
  open(method, url) {
    this.file = path.join(folder, path.basename(url));
  }
  send() {
    this.response = fs.readFileSync(this.file);
  }
}

// Takes the text of a trace and gives its model as JSON.
function catapult() {
  const file = path.join(folder, "assets", "catapult_trace_viewer.js");
  const code = fs.readFileSync(file, "utf8");
  const context = vm.createContext({ console: log, performance, isVinn: true, Polymer: anything, document: anything });
  Object.assign(context, { window: context, navigator: anything, location: { search: "" }, setTimeout });
  // The polyfills for web pages come first; then this line, and then all modules.
  const first = code.indexOf("tr.initialize();");
  const start = code.lastIndexOf("'use strict'", first);
  const rest = first + "tr.initialize();".length;
  vm.runInContext(code.slice(start, rest), context, { filename: file });
  skipModulesOfThePage(context.tr);
  vm.runInContext(code.slice(rest), context, { filename: file });
  return (data) => Buffer.from(JSON.stringify(modelOf(context.tr, data.toString("utf8"))));
}

// Whatever the modules ask of a page while they load.
const anything = new Proxy(function () {}, {
  get: (target, key) => (key === Symbol.toPrimitive ? () => "" : key === "prototype" ? target.prototype : anything),
  set: () => true,
  apply: () => anything,
  construct: () => anything,
});

function skipModulesOfThePage(tr) {
  const exportTo = tr.exportTo;
  tr.exportTo = (name, module) => {
    try {
      exportTo(name, module);
    } catch (error) {
      if (!/^tr(\.v)?\.ui(\.|$)/.test(name)) throw error;
    }
  };
}

function modelOf(tr, text) {
  const model = new tr.Model();
  try {
    new tr.importer.Import(model).importTraces([text]);
  } catch (error) {
    return { error: String(error.message ?? error) };
  }
  return {
    warnings: model.importWarnings.map((warning) => warning.message),
    processes: Object.values(model.processes).map(processOf),
    flows: model.flowEvents.map((flow) => ({
      name: flow.title,
      from: flow.startSlice?.title ?? null,
      to: flow.endSlice?.title ?? null,
    })),
  };
}

function processOf(process) {
  return {
    pid: process.pid,
    name: process.name ?? null,
    labels: process.labels ?? [],
    sort_index: process.sortIndex,
    threads: Object.values(process.threads).map(threadOf),
    counters: Object.values(process.counters).map(counterOf),
  };
}

function threadOf(thread) {
  return {
    tid: thread.tid,
    name: thread.name ?? null,
    sort_index: thread.sortIndex,
    slices: thread.sliceGroup.slices.map((slice) => ({
      name: slice.title,
      category: slice.category,
      duration_us: slice.duration * 1000,
      args: slice.args,
      parent: slice.parentSlice?.title ?? null,
      parent_id: slice.parentSlice?.args.linly?.span_id ?? null,
    })),
  };
}

function counterOf(counter) {
  return { name: counter.name, values: counter.series.flatMap((series) => series.samples.map((s) => s.value)) };
}

function read(size) {
  const data = Buffer.alloc(size);
  for (let filled = 0; filled < size; ) {
    const count = fs.readSync(0, data, filled, size - filled);
    if (count === 0) process.exit(0);
    filled += count;
  }
  return data;
}

function write(data) {
  const head = Buffer.alloc(4);
  head.writeUInt32LE(data.length);
  data = Buffer.concat([head, data]);
  for (let sent = 0; sent < data.length; ) sent += fs.writeSync(1, data, sent);
}

async function main() {
  const viewers = { p: perfetto, c: catapult };
  for (;;) {
    const head = read(5);
    const name = String.fromCharCode(head[0]);
    const viewer = (viewers[`${name} `] ??= await viewers[name]()); // loaded when first asked
    write(viewer(read(head.readUInt32LE(1))));
  }
}

main();

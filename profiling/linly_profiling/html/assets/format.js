// Numbers and texts as a person reads them. "—" is: not measured, or not known.

const NOTHING = "—";

function threeDigits(value) {
  const whole = Math.abs(value).toFixed(0).length;
  return value.toFixed(Math.max(0, 3 - whole));
}

function duration(ns) {
  if (ns === null || ns === undefined) return NOTHING;
  if (ns === 0) return "0";
  if (Math.abs(ns) < 999.5) return `${ns.toFixed(0)} ns`;
  if (Math.abs(ns) < 999.5e3) return `${threeDigits(ns / 1e3)} µs`;
  if (Math.abs(ns) < 999.5e6) return `${threeDigits(ns / 1e6)} ms`;
  return `${threeDigits(ns / 1e9)} s`;
}

function size(bytes) {
  if (bytes === null || bytes === undefined) return NOTHING;
  if (bytes === 0) return "0";
  if (Math.abs(bytes) < 999.5) return `${bytes} B`;
  if (Math.abs(bytes) < 999.5e3) return `${threeDigits(bytes / 1e3)} kB`;
  if (Math.abs(bytes) < 999.5e6) return `${threeDigits(bytes / 1e6)} MB`;
  return `${threeDigits(bytes / 1e9)} GB`;
}

// A field of a fixed table. A trace may well ask for "constructor", which every object has.
function pick(table, key) {
  return Object.hasOwn(table, key) ? table[key] : undefined;
}

function signed(text) {
  return text.startsWith("-") ? `−${text.slice(1)}` : `+${text}`;
}

function count(value) {
  return value === null || value === undefined ? NOTHING : value.toLocaleString("en");
}

function share(part, whole) {
  if (!whole) return NOTHING;
  const percent = (100 * part) / whole;
  return percent > 0 && percent < 1 ? "< 1 %" : `${percent.toFixed(0)} %`;
}

function factor(value) {
  if (value === null || value === undefined) return NOTHING;
  return value < 0.095 ? value.toFixed(3) : value.toFixed(2);
}

function seconds(value) {
  return value === null || value === undefined ? NOTHING : `${value.toFixed(2)} s`;
}

function plural(number, one, many = `${one}s`) {
  return `${count(number)} ${number === 1 ? one : many}`;
}

const UNITS = [
  { unit: "s", scale: 1e9, digits: 3 },
  { unit: "ms", scale: 1e6, digits: 2 },
  { unit: "µs", scale: 1e3, digits: 0 },
  { unit: "ns", scale: 1, digits: 0 },
];

// An instant after the start. On the axis with as many digits as the step between two labels needs.
function instant(ns, step = null) {
  if (ns === 0) return "0";
  const least = step === null ? Math.abs(ns) : 10 * step;
  const { unit, scale, digits } = UNITS.find((candidate) => least >= candidate.scale) ?? UNITS[3];
  const needed = step === null ? digits : Math.max(0, Math.ceil(-Math.log10(step / scale) - 1e-9));
  return `${(ns / scale).toFixed(needed)} ${unit}`;
}

function wallClock(unixMs) {
  const date = new Date(unixMs);
  return Number.isNaN(date.getTime()) ? NOTHING : date.toISOString().replace("T", " ").replace("Z", " UTC");
}

// A visible sign for what has none, or would turn the text around it: controls, and marks of writing direction.
function visible(text) {
  return String(text)
    .replace(/[\u0000-\u001f]/g, (char) => String.fromCharCode(0x2400 + char.charCodeAt(0)))
    .replace(/\u007f/g, "␡")
    .replace(/[\u0080-\u009f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, "�");
}

// Span names without the prefix that all of ours have.
function shortName(name) {
  const short = name.startsWith("linly.") ? name.slice(6) : name;
  return visible(short) || "(no name)";
}

// An attribute, by the unit in its name.
function attribute(name, value) {
  if (value === null || value === undefined) return NOTHING;
  if (typeof value === "number") return measured(name, value);
  if (typeof value === "string") return visible(value);
  if (Array.isArray(value) && value.every((item) => typeof item !== "object")) {
    return value.map((item) => visible(item)).join("\n");
  }
  return visible(JSON.stringify(value));
}

function measured(name, value) {
  if (name.endsWith("_ns")) return duration(value);
  if (name.endsWith("_ms")) return `${threeDigits(value)} ms`;
  if (name.endsWith("_s")) return seconds(value);
  if (name.endsWith("bytes") || name.startsWith("memory.")) return size(value);
  return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(6)));
}

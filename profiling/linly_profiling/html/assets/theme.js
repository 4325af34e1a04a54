// Colours, from the style sheet, so that light, dark and print are decided in one place.

// Stages keep their colour from report to report; other rows take what is left, in the order of the rows.
const KNOWN_ROWS = { request: 0, asr: 1, llm: 2, tts: 3, motion: 4, face: 5, sink: 6, "event loop": 7, gc: 8 };
const SPARE_COLOURS = [9, 10, 11, 1, 3, 5, 2, 4, 6];

let theme = {};

function readTheme() {
  const style = getComputedStyle(document.documentElement);
  const read = (name) => style.getPropertyValue(`--${name}`).trim();
  theme = { hatches: new Map() };
  for (const name of ["ink", "muted", "faint", "line", "paper", "panel", "accent", "bad", "row"])
    theme[name] = read(name);
  theme.rows = Array.from({ length: 12 }, (_, i) => read(`row-${i}`));
  theme.font = read("font") || "sans-serif";
}

function numberRows(names) {
  const numbers = new Map();
  let spare = 0;
  for (const name of names) {
    if (numbers.has(name)) continue;
    numbers.set(name, pick(KNOWN_ROWS, name) ?? SPARE_COLOURS[spare++ % SPARE_COLOURS.length]);
  }
  return numbers;
}

function rowNumber(trace, row) {
  trace.rowNumbers ??= numberRows(trace.rows.map(([name]) => name));
  return trace.rowNumbers.get(row) ?? 0;
}

// What has no row of its own, as in a program without stages, is coloured by its name.
function spanNumber(trace, i) {
  const row = rowOf(trace, i);
  if (row !== "request" || trace.parent[i] < 0) return rowNumber(trace, row);
  trace.nameNumbers ??= new Map();
  const name = trace.name[i];
  if (!trace.nameNumbers.has(name)) trace.nameNumbers.set(name, 1 + (trace.nameNumbers.size % 11));
  return trace.nameNumbers.get(name);
}

function rowColour(trace, row) {
  return theme.rows[rowNumber(trace, row)];
}

function spanColour(trace, i) {
  return theme.rows[spanNumber(trace, i)];
}

// The same as CSS variables, for elements, which then follow the colour scheme by themselves.
function rowVariable(trace, row) {
  return `var(--row-${rowNumber(trace, row)})`;
}

function spanVariable(trace, i) {
  return `var(--row-${spanNumber(trace, i)})`;
}

// Black or white, whichever contrasts more with a colour "#rrggbb" (relative luminance and contrast of WCAG 2).
function inkOn(colour) {
  const channels = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16) / 255);
  const [red, green, blue] = channels.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.195 ? "#10141c" : "#ffffff";
}

// Diagonal lines in a colour: what waits, and what was cancelled, can be told apart without seeing colours.
function hatch(context, colour) {
  if (!theme.hatches.has(colour)) {
    const tile = document.createElement("canvas");
    tile.width = tile.height = 8;
    const pen = tile.getContext("2d");
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.beginPath();
    for (const x of [-8, 0, 8]) {
      pen.moveTo(x - 1, 9);
      pen.lineTo(x + 9, -1);
    }
    pen.stroke();
    theme.hatches.set(colour, context.createPattern(tile, "repeat"));
  }
  return theme.hatches.get(colour);
}

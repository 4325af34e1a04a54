// Elements. Texts become text nodes and nothing else: whatever a trace contains, it is never markup.

function element(tag, properties = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) setProperty(made, name, value);
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return made;
}

function setProperty(made, name, value) {
  if (value === null || value === undefined) return;
  if (name === "class") made.className = value;
  else if (name === "text") made.textContent = visible(value);
  else if (name === "on") for (const [event, run] of Object.entries(value)) made.addEventListener(event, run);
  else if (name === "style") for (const [key, rule] of Object.entries(value)) made.style.setProperty(key, rule);
  else if (name === "data") Object.assign(made.dataset, value);
  else made.setAttribute(name, value);
}

// Prose, with what stands between backticks as code.
function prose(text) {
  return visible(text)
    .split("`")
    .map((piece, i) => (i % 2 ? element("code", { text: piece }) : piece));
}

function button(text, run, properties = {}) {
  return element("button", { type: "button", text, on: { click: run }, ...properties });
}

function section(title, id, ...children) {
  return element("section", { id, "aria-label": title }, element("h2", { text: title }), ...children);
}

// A canvas sharp on any screen; `paint(context, width, height)` draws in CSS pixels.
function sizeCanvas(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [pixelsWide, pixelsHigh] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== pixelsWide || canvas.height !== pixelsHigh) {
    canvas.width = pixelsWide;
    canvas.height = pixelsHigh;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
  }
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

const waitingToDraw = new Set();

// At most one run of `work` before the next frame, however often it is asked for.
function oncePerFrame(work) {
  return () => {
    if (!waitingToDraw.size) requestAnimationFrame(drawNow);
    waitingToDraw.add(work);
  };
}

function drawNow() {
  const works = [...waitingToDraw];
  waitingToDraw.clear();
  for (const work of works) work();
}

function tooltip(lines, event) {
  const box = document.getElementById("tooltip");
  box.hidden = !lines;
  if (!lines) return;
  box.replaceChildren(...lines.map((line, i) => element("div", { text: line, class: i ? "" : "strong" })));
  const { clientWidth, clientHeight } = document.documentElement;
  const [width, height] = [box.offsetWidth, box.offsetHeight];
  const x = event.clientX + 14 + width > clientWidth ? event.clientX - 10 - width : event.clientX + 14;
  const y = event.clientY + 16 + height > clientHeight ? event.clientY - 10 - height : event.clientY + 16;
  box.style.left = `${Math.max(4, x)}px`;
  box.style.top = `${Math.max(4, y)}px`;
}

// Text over an element while the pointer is on it, or the keyboard.
function hint(made, lines) {
  const show = (event) => tooltip(lines(), event);
  made.addEventListener("pointermove", show);
  made.addEventListener("pointerleave", () => tooltip(null));
  made.addEventListener("focus", () => {
    const box = made.getBoundingClientRect();
    if (made.matches(":focus-visible")) tooltip(lines(), { clientX: box.left, clientY: box.bottom });
  });
  made.addEventListener("blur", () => tooltip(null));
  return made;
}

// Time added up by the path of names: wide is long. What ran side by side is added up, so widths exceed the wall time.

const FLAME_ROW = 22;
const LEAST_WIDTH = 0.0012;

function flameSection(app) {
  const tree = flameTree(app.trace);
  const state = { top: -1, waiting: false };
  const chart = element("div", { class: "flame", role: "tree", "aria-label": "Time by path of span names" });
  const crumbs = element("div", { class: "crumbs" });
  const hasWaits = tree.wait.some((wait) => wait > 0);
  const box = element("input", {
    type: "checkbox",
    id: "flame-waiting",
    on: {
      change: () => {
        state.waiting = box.checked;
        refresh();
      },
    },
  });
  const choice = element("label", { for: "flame-waiting", class: "choice" }, box, "show waiting");
  choice.hidden = !hasWaits;

  function refresh() {
    const weights = flameWeights(tree, state.waiting);
    paintFlame(app, chart, tree, weights, state.top, open);
    crumbs.replaceChildren(...flameCrumbs(app, tree, state.top, open));
  }

  function open(node) {
    state.top = node;
    refresh();
    chart.querySelector("[tabindex='0']")?.focus({ preventScroll: true });
  }

  chart.addEventListener("keydown", (event) => flameKey(chart, event, () => open(-1)));
  refresh();
  return section(
    "Time by name",
    "flame",
    element(
      "div",
      { class: "toolbar" },
      element("p", {
        class: "legend",
        text: "Each box is all spans with one path of names; its width is their time, what ran side by side added up. Click to look closer.",
      }),
      choice,
    ),
    crumbs,
    element("div", { class: "flame-scroller" }, chart),
  );
}

function flameTree({ flame, names }) {
  const children = flame.name.map(() => []);
  const roots = [];
  flame.parent.forEach((parent, node) => (parent < 0 ? roots : children[parent]).push(node));
  return { ...flame, names, children, roots };
}

// Width of every node: its own time and that of all below it. Children come after parents, so one pass from the end.
function flameWeights(tree, waiting) {
  const weights = tree.self.map((self, node) => self - (waiting ? 0 : tree.wait[node]));
  for (let node = weights.length - 1; node >= 0; node--) {
    if (tree.parent[node] >= 0) weights[tree.parent[node]] += weights[node];
  }
  return weights;
}

function paintFlame(app, chart, tree, weights, top, open) {
  const boxes = [];
  const above = [];
  for (let node = top; node >= 0; node = tree.parent[node]) if (node !== top) above.unshift(node);
  above.forEach((node, depth) => boxes.push({ node, depth, left: 0, width: 1 }));
  const waiting = [];
  placeChildren(tree, weights, top < 0 ? tree.roots : [top], 0, 1, above.length, waiting);
  for (let k = 0; k < waiting.length; k++) {
    // not recursive: a trace may be thousands of levels deep
    const box = waiting[k];
    boxes.push(box);
    placeChildren(
      tree,
      weights,
      tree.children[box.node],
      box.left,
      box.width,
      box.depth + 1,
      waiting,
      weights[box.node],
    );
  }
  const whole = weights[top] ?? tree.roots.reduce((sum, node) => sum + weights[node], 0);
  const deepest = boxes.reduce((most, box) => Math.max(most, box.depth), 0);
  chart.style.height = `${(deepest + 1) * FLAME_ROW}px`;
  chart.replaceChildren(...boxes.map((box, k) => flameBox(app, tree, weights, box, whole, k === above.length, open)));
}

function placeChildren(tree, weights, nodes, left, width, depth, into, whole = null) {
  const total = whole ?? nodes.reduce((sum, node) => sum + weights[node], 0);
  let x = left;
  for (const node of [...nodes].sort((a, b) => weights[b] - weights[a])) {
    const wide = total > 0 ? (width * weights[node]) / total : 0;
    if (wide >= LEAST_WIDTH) into.push({ node, depth, left: x, width: wide });
    x += wide;
  }
}

function flameBox(app, tree, weights, { node, depth, left, width }, whole, first, open) {
  const { trace } = app;
  const name = shortName(tree.names[tree.name[node]]);
  const waits = tree.wait[node] > 0.5 * tree.self[node] && !tree.children[node].length;
  const made = button(width > 0.02 ? name : "", () => open(node), {
    class: waits ? "flame-box waits" : "flame-box",
    role: "treeitem",
    tabindex: first ? "0" : "-1",
    "aria-level": String(depth + 1),
    "aria-label": `${name}, ${duration(tree.total[node])}`,
    data: { depth: String(depth), left: String(left), node: String(node) },
    style: {
      left: `${100 * left}%`,
      width: `${100 * width}%`,
      top: `${depth * FLAME_ROW}px`,
      "--colour": spanVariable(trace, tree.first[node]),
      "--on": waits ? "var(--ink)" : inkOn(spanColour(trace, tree.first[node])),
    },
  });
  return hint(made, () => [
    name,
    `${plural(tree.count[node], "span")}, ${duration(tree.total[node])} in all`,
    `own ${duration(tree.self[node])}${tree.wait[node] ? `, of it waiting ${duration(tree.wait[node])}` : ""}`,
    `${share(weights[node], whole)} of what is shown`,
  ]);
}

function flameCrumbs(app, tree, top, open) {
  if (top < 0) return [];
  return [
    button("show all", () => open(-1)),
    button("light up its spans", () =>
      app.highlight(spansOfPath(app.trace, tree, top), shortName(tree.names[tree.name[top]])),
    ),
  ];
}

// Spans whose names from the root down are those of a node.
function spansOfPath(trace, tree, node) {
  const path = [];
  for (let at = node; at >= 0; at = tree.parent[at]) path.push(tree.names[tree.name[at]]);
  const matches = (i) => {
    let at = i;
    for (const name of path) {
      if (at < 0 || trace.name[at] !== name) return false;
      at = trace.parent[at];
    }
    return at < 0;
  };
  return trace.id.map((_, i) => i).filter(matches);
}

// Arrows move between boxes, Enter opens one, Escape shows all.
function flameKey(chart, event, all) {
  if (event.key === "Escape") {
    all();
    return;
  }
  const here = document.activeElement;
  if (!here?.dataset.depth || !event.key.startsWith("Arrow")) return;
  event.preventDefault();
  const [depth, left] = [Number(here.dataset.depth), Number(here.dataset.left)];
  const boxes = [...chart.children];
  const at = (level) => boxes.filter((box) => Number(box.dataset.depth) === level);
  const level = at(depth);
  const next = {
    ArrowRight: () => level[level.indexOf(here) + 1],
    ArrowLeft: () => level[level.indexOf(here) - 1],
    ArrowDown: () => at(depth + 1).find((box) => Number(box.dataset.left) >= left - 1e-9),
    ArrowUp: () => at(depth - 1).findLast((box) => Number(box.dataset.left) <= left + 1e-9),
  }[event.key]?.();
  if (!next) return;
  here.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

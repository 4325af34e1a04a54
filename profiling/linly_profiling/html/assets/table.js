// A table that sorts by any column, with the mouse or the keyboard.

const MOST_ROWS = 200;

// Columns: {title, value(row), text(row), left, bar(row) in 0…1, colour(row), note}. `open(row)` makes rows clickable.
function sortableTable({ caption, columns, rows, open, isCurrent, by = null, falling = true }) {
  const state = { by, falling, all: false };
  const body = element("tbody");
  const headings = columns.map((column, i) => heading(column, () => sort(i)));
  const more = button(
    "",
    () => {
      state.all = true;
      fill();
    },
    { class: "quiet" },
  );
  const table = element(
    "table",
    {},
    element("caption", { class: "unseen", text: caption }),
    element("thead", {}, element("tr", {}, headings)),
    body,
  );

  function sort(i) {
    state.falling = state.by === i ? !state.falling : !columns[i].left;
    state.by = i;
    fill();
  }

  function fill() {
    headings.forEach((cell, i) => {
      cell.setAttribute("aria-sort", state.by !== i ? "none" : state.falling ? "descending" : "ascending");
    });
    const ordered = state.by === null ? rows : sorted(rows, columns[state.by].value, state.falling);
    const shown = state.all ? ordered : ordered.slice(0, MOST_ROWS);
    body.replaceChildren(...shown.map((row) => tableRow(row, columns, open, isCurrent)));
    more.hidden = shown.length === rows.length;
    more.textContent = `show all ${count(rows.length)} rows`;
  }

  fill();
  return element("div", { class: "table", data: { refresh: "" }, on: { refresh: fill } }, table, more);
}

function heading(column, run) {
  const cell = element("th", { scope: "col", class: column.left ? "left" : "", title: column.note });
  cell.append(button(column.title, run));
  return cell;
}

function tableRow(row, columns, open, isCurrent) {
  const cells = columns.map((column, i) => tableCell(row, column, i === 0 && open));
  const made = element("tr", { class: isCurrent?.(row) ? "current" : "" }, cells);
  if (!open) return made;
  made.classList.add("clickable");
  made.addEventListener("click", () => open(row));
  return made;
}

function tableCell(row, column, opens) {
  const text = column.text ? column.text(row) : column.value(row);
  const cell = element("td", { class: column.left ? "left" : "" });
  // The button is there for the keyboard; its click reaches the row, which acts.
  cell.append(opens ? button(text, () => {}, { class: "link" }) : element("span", { text }));
  if (column.colour) cell.prepend(element("span", { class: "dot", style: { background: column.colour(row) } }));
  if (column.bar) cell.append(shareBar(column.bar(row)));
  return cell;
}

function shareBar(part) {
  const bar = element("span", { class: "share-bar", "aria-hidden": "true" });
  bar.append(element("span", { style: { width: `${(100 * Math.min(1, Math.max(0, part || 0))).toFixed(1)}%` } }));
  return bar;
}

// What is not known stands last, whichever way round.
function sorted(rows, value, falling) {
  const order = (a, b) => {
    const [x, y] = [value(a), value(b)];
    if (x === null || x === undefined) return y === null || y === undefined ? 0 : 1;
    if (y === null || y === undefined) return -1;
    const rises = typeof x === "string" ? x.localeCompare(y) : x - y;
    return falling ? -rises : rises;
  };
  return [...rows].sort(order);
}

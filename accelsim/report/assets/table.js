"use strict";
// Tables: a click on a column sorts, a text filters, arrow keys move from row to row.

function cellValue(row, column) {
  const cell = row.cells[column];
  return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
}

const inOrder = (x, y) => (typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y)));

function sortRows(table, column, descending) {
  const body = table.tBodies[0], order = (a, b) => inOrder(cellValue(a, column), cellValue(b, column));
  body.append(...[...body.rows].sort((a, b) => (descending ? order(b, a) : order(a, b))));
}

// Numbers come first the largest, where `down` says no else; `sorted` puts the rows in order.
function sortable(table, sorted = sortRows, down = (column) => column > 0 && [...table.tBodies[0].rows].some((row) => row.cells[column].dataset.v !== undefined)) {
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const sort = () => {
      const now = head.getAttribute("aria-sort");
      const descending = now === null ? down(column) : now === "ascending";
      for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sorted(table, column, descending);
    };
    head.tabIndex = 0;
    head.title = "sort by this column";
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" && event.key !== " ") return;
      event.preventDefault();
      sort();
    });
  });
}

function filterable(table, mount) {
  const rows = [...table.tBodies[0].rows];
  const count = el("output", {});
  const tell = () => { count.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length} lines`; };
  const filter = (event) => {
    const wanted = event.target.value.toLowerCase();
    if (wanted) table.classList.remove("folded");
    for (const row of rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
    tell();
  };
  const field = el("input", { type: "search", placeholder: "part of a name, an operator, a cause", input: filter });
  mount.append(el("label", { class: "filter" }, "show lines with ", field), count);
  tell();
}

// One row can be reached by Tab; from there arrows move, Enter chooses, Escape lets go.
function pointable(view, table) {
  const body = table.tBodies[0];
  const layerOf = (target) => {
    const row = target.closest("tr[data-layer]");
    return row ? Number(row.dataset.layer) : null;
  };
  const focus = (row) => {
    for (const each of body.rows) each.tabIndex = -1;
    row.tabIndex = 0;
    row.focus();
  };
  if (body.rows.length) body.rows[0].tabIndex = 0;
  body.addEventListener("mouseover", (event) => view.point(layerOf(event.target)));
  body.addEventListener("mouseleave", () => view.point(null));
  body.addEventListener("focusin", (event) => view.point(layerOf(event.target)));
  body.addEventListener("focusout", () => view.point(null));
  body.addEventListener("click", (event) => view.choose(layerOf(event.target)));
  body.addEventListener("keydown", (event) => {
    const shown = [...body.rows].filter((row) => row.checkVisibility());
    const at = shown.indexOf(event.target.closest("tr"));
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && shown[at + step]) focus(shown[at + step]);
    else if (event.key === "Enter") view.choose(layerOf(event.target));
    else if (event.key === "Escape") view.choose(null);
    else return;
    event.preventDefault();
  });
  view.onLayer((layer) => {
    for (const row of body.rows) row.classList.toggle("lit", Number(row.dataset.layer) === layer);
  });
}

// Blocks that repeat an earlier one are folded at first.
function foldable(table, mount) {
  const many = table.querySelectorAll("tr.again").length;
  if (!many) return;
  const fold = (event) => event.target.setAttribute("aria-pressed", String(!table.classList.toggle("folded")));
  table.classList.add("folded");
  mount.append(el("button", { type: "button", "aria-pressed": "false", click: fold }, `show all blocks (${many} lines more)`));
}

function tablePart(view, mount) {
  const table = view.article.querySelector("table.layers");
  sortable(table);
  filterable(table, mount);
  foldable(table, mount);
  pointable(view, table);
}

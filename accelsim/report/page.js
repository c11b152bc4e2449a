for (const table of document.querySelectorAll("table.sortable")) {
  const body = table.tBodies[0];
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.v === undefined ? cell.textContent : Number(cell.dataset.v);
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const sort = () => {
      const numbers = body.rows.length && body.rows[0].cells[column].dataset.v !== undefined;
      const now = head.getAttribute("aria-sort");
      const descending = now === null ? numbers && column > 0 : now === "ascending";
      for (const each of head.parentElement.cells) each.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      const order = (a, b) => (numbers ? value(a, column) - value(b, column) : value(a, column).localeCompare(value(b, column)));
      body.append(...[...body.rows].sort((a, b) => (descending ? order(b, a) : order(a, b))));
    };
    head.tabIndex = 0;
    head.addEventListener("click", sort);
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
  });
}

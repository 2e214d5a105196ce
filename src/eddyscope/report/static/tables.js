// Tables: data of figures, CSV files, sorting.

const MOST_ROWS = 200;

function element(name, text, attributes = {}) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

/** The data of a figure as a table, made when it is opened. */
function fillTable(figure, made) {
  const details = figure.querySelector("details.data");
  if (!details || !details.open) return;
  const table = element("table", undefined, { class: "plain" });
  const head = element("tr");
  for (const name of made.columns) head.append(element("th", name, { scope: "col" }));
  table.append(element("thead"));
  table.firstChild.append(head);
  const body = element("tbody");
  for (const row of made.rows.slice(0, MOST_ROWS)) {
    const line = element("tr");
    for (const cell of row) line.append(element("td", isNumber(cell) ? plain(cell) : cell === null ? "–" : String(cell)));
    body.append(line);
  }
  table.append(body);
  const place = details.querySelector(".scroll");
  place.replaceChildren(table);
  if (made.rows.length > MOST_ROWS) {
    place.append(element("p", `The first ${MOST_ROWS} of ${made.rows.length} rows; the CSV has all.`, { class: "note" }));
  }
}

const quoted = (cell) => {
  const text = cell === null || cell === undefined ? "" : String(cell);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
};
function download(name, rows) {
  const text = rows.map((row) => row.map(quoted).join(",")).join("\r\n") + "\r\n";
  const link = element("a", undefined, { download: `${name}.csv` });
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

function sortBy(table, column) {
  const heads = [...table.tHead.rows[0].cells];
  const turn = heads[column].getAttribute("aria-sort") === "ascending" ? -1 : 1;
  heads.forEach((head, i) => head.setAttribute("aria-sort", i !== column ? "none" : turn > 0 ? "ascending" : "descending"));
  const key = (row) => {
    const text = row.cells[column].dataset.key;
    return text === "" ? null : Number.isNaN(Number(text)) ? text : Number(text);
  };
  const rows = [...table.tBodies[0].rows].map((row) => [key(row), row]);
  rows.sort(([a], [b]) => {
    if (a === null || b === null) return (a === null) - (b === null);  // what is not there comes last either way
    return turn * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
  });
  table.tBodies[0].append(...rows.map(([, row]) => row));
}

function watchTables() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.dataset.csv) {
      const name = button.dataset.csv;
      stale.add(name);
      const made = charts.get(name)();
      download(name, [made.columns, ...made.rows]);
    } else if (button.dataset.tableCsv) {
      const table = document.getElementById(button.dataset.tableCsv);
      download(button.dataset.tableCsv, [...table.rows].map((row) => [...row.cells].map((cell) => cell.textContent)));
    } else if (button.closest("table.sortable")) {
      sortBy(button.closest("table"), button.closest("th").cellIndex);
    }
  });
  for (const details of document.querySelectorAll("figure.chart details.data")) {
    details.addEventListener("toggle", () => {
      const figure = details.closest("figure");
      if (details.open && drawn.has(figure.dataset.chart)) fillTable(figure, drawn.get(figure.dataset.chart));
    });
  }
}

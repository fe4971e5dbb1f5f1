// Elements of a page, and its themes.

const THEMES = ["system", "light", "dark"];
const byId = (id) => document.getElementById(id);

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function showTheme(theme) {
  document.documentElement.dataset.theme = theme;
  byId("theme").textContent = `Theme: ${theme}`;
}

/** Fills a table: names of columns, then rows of texts; classes by column. */
function fillTable(table, names, rows, classes) {
  const cells = (kind, texts) => texts.map((text, at) => {
    const cell = element(kind, undefined, classes[at]);
    cell.append(element("bdi", text));
    if (kind === "th") cell.scope = "col";
    return cell;
  });
  const line = (kind, texts) => {
    const made = element("tr");
    made.append(...cells(kind, texts));
    return made;
  };
  const [head, body] = [element("thead"), element("tbody")];
  head.append(line("th", names));
  body.append(...rows.map((row) => line("td", row)));
  table.replaceChildren(head, body);
}

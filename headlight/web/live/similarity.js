// Similarity of several texts: the cosines of their pooled vectors, as a table.

const MOST_TEXTS = 24; // a larger table is hard to read

TASKS.similarity = {
  title: "Similarity",
  send: "Compare texts",
  heading: "Cosine similarity",
  ...POOLED_VECTORS,
  check: ({ texts }) => tooManyOrFew(texts, 2, MOST_TEXTS),
  request: (settings) => ({ inputs: textsOf(settings.texts), ...longer(settings), outputs: { pooled: { normalize: true, ...shortened(settings) } } }),
  python: (settings) => ({
    imports: ["from headlight import Client"],
    lines: [
      ...pythonList("texts", textLines(settings.texts)),
      `vectors = client.encode(texts, normalize=True${settings.dimensions ? `, dimensions=${settings.dimensions}` : ""}${truncated(settings)})`,
      "print(vectors @ vectors.T)",
    ],
  }),
  draw(answer, settings) {
    const vectors = vectorsOf(answer.pooled[0]);
    const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
    return cosineTable(textLines(settings.texts), vectors.map((a) => vectors.map((b) => dot(a, b))));
  },
};

/** Returns the table, whose colours reach from the least to the most similar pair, and what they mean. */
function cosineTable(texts, cosines) {
  const pairs = cosines.flatMap((row, at) => row.filter((_, other) => other !== at));
  const [low, high] = [Math.min(...pairs), Math.max(...pairs)];
  const table = element("table");
  table.id = "cosines";
  table.setAttribute("role", "grid");
  table.setAttribute("aria-label", "Cosines");
  const head = element("tr");
  head.append(element("th", ""), ...texts.map((_, at) => Object.assign(element("th", at + 1), { scope: "col" })));
  const rows = texts.map((text, at) => {
    const row = element("tr");
    const name = element("th", undefined, "of");
    name.scope = "row";
    name.title = text;
    name.append(`${at + 1} `, element("bdi", visible(text).replaceAll("␣", " ")));
    row.append(name, ...cosines[at].map((cosine, other) => {
      const cell = cosineCell(cosine, at === other ? 1 : (cosine - low) / (high - low || 1));
      cell.setAttribute("aria-label", `text ${at + 1} with text ${other + 1}: ${spaced(cosine)}`);
      return cell;
    }));
    return row;
  });
  const [top, body] = [element("thead"), element("tbody")];
  top.append(head);
  body.append(...rows);
  table.append(top, body);
  table.querySelector("td").tabIndex = 0;
  table.addEventListener("keydown", moveInTable);
  return [tableRegion(table, "Matrix of similarities"), element("p", `Colours reach from the least similar pair (${spaced(low)}) to the most similar one (${spaced(high)}).`, "fine")];
}

function cosineCell(cosine, share) {
  const cell = element("td", cosine.toFixed(3));
  const bits = ramp()[Math.round(Math.max(0, Math.min(1, share)) * 255)];
  const colour = `#${[bits, bits >> 8, bits >> 16].map((part) => (part & 255).toString(16).padStart(2, "0")).join("")}`;
  cell.style.setProperty("--cell", colour);
  cell.style.setProperty("--on-cell", readableOn(colour));
  cell.tabIndex = -1;
  cell.setAttribute("role", "gridcell");
  return cell;
}

/** Moves the keyboard from cell to cell. */
function moveInTable(event) {
  const cell = event.target.closest("td");
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (!cell || !(event.key in steps)) return;
  event.preventDefault();
  const [down, right] = steps[event.key];
  const row = cell.closest("tbody").rows[cell.parentElement.sectionRowIndex + down];
  const to = row?.cells[cell.cellIndex + right];
  if (to?.tagName !== "TD") return;
  [cell.tabIndex, to.tabIndex] = [-1, 0];
  to.focus();
}

// Head view: two columns of tokens, with lines between them on a canvas of the visible size.

const MOST_LINES = 20000; // a browser draws so many without a noticeable pause
const columns = { query: byId("queries"), key: byId("keys") };
const OTHER = { query: "key", key: "query" };
const CAPTION = 26; // pixels of the line above the columns, as in the style sheet
const rowHeight = () => (COUNT <= 12 ? 38 : COUNT <= 60 ? 26 : 19); // pixels
const listed = { key: null, tokens: [], rowOf: new Map(), cells: { query: [], key: [] } };
const drawnLines = { key: null, lines: [], total: 0, top: 0 }; // top: the greatest weight on the canvas

/** Returns the element of a token in a column. It sets only text: a token may look like markup. */
function tokenCell(side, token, joint) {
  const cell = document.createElement("div");
  cell.className = `token${data.special[token] ? " special" : ""}${joint ? " joint" : ""}`;
  cell.id = `${side}-${token}`;
  cell.dataset.token = token;
  cell.setAttribute("role", "option");
  cell.setAttribute("aria-selected", "false");
  cell.setAttribute("aria-label", `${side} ${named(token)}`);
  cell.title = data.labels[token];
  cell.tabIndex = -1;
  for (const [name, text] of [["index", token], ["label", data.labels[token]], ["weight", ""]]) {
    const part = document.createElement(name === "label" ? "bdi" : "span");
    part.className = name;
    part.textContent = text;
    cell.append(part);
  }
  return cell;
}

/** Fills both columns again if the shown tokens have changed. */
function listTokens() {
  const key = `${edition}|${state.hideSpecial}`;
  if (listed.key === key) return;
  Object.assign(listed, { key, tokens: shown() });
  listed.rowOf = new Map(listed.tokens.map((token, row) => [token, row]));
  byId("scroller").style.setProperty("--row", `${rowHeight()}px`);
  byId("scroller").classList.toggle("dense", rowHeight() < 22);
  for (const side of ["query", "key"]) {
    const joint = (token, row) => row > 0 && data.segments[token] !== data.segments[listed.tokens[row - 1]];
    listed.cells[side] = listed.tokens.map((token, row) => tokenCell(side, token, joint(token, row)));
    columns[side].replaceChildren(...listed.cells[side]);
    if (listed.cells[side].length) listed.cells[side][0].tabIndex = 0;
  }
}

/** Returns the lines of the chosen heads, the weakest first, so that strong lines are on top. */
function chosenLines() {
  const key = [edition, state.layer, state.heads, state.most, state.least, state.hideSpecial].join("|");
  if (drawnLines.key === key) return drawnLines;
  let lines = [];
  for (const head of state.heads) {
    for (const line of strongest(state.layer, head, listed.tokens, state.most, state.least)) lines.push(line);
  }
  lines.sort((a, b) => a.weight - b.weight);
  const total = lines.length;
  if (total > MOST_LINES) lines = lines.slice(total - MOST_LINES);
  Object.assign(drawnLines, { key, lines, total });
  return drawnLines;
}

/** Returns all lines of one token that reach the slider's weight, in any number. */
function linesOf({ side, token }) {
  const lines = [];
  for (const head of state.heads) {
    const weights = weightsOf(mapOf(state.layer, head), { side, token });
    for (const other of listed.tokens) {
      const [query, key] = side === "query" ? [token, other] : [other, token];
      if (weights[other] >= state.least && weights[other] > 0) lines.push({ head, query, key, weight: weights[other] });
    }
  }
  return lines.sort((a, b) => a.weight - b.weight);
}

function drawLines() {
  const canvas = byId("lines");
  const scroller = byId("scroller");
  const width = canvas.parentElement.clientWidth;
  const height = Math.min(scroller.clientHeight - CAPTION, listed.tokens.length * rowHeight());
  const context = fitted(canvas, width, height);
  const focus = focused();
  const lines = focus ? linesOf(focus) : chosenLines().lines;
  drawnLines.top = lines.length ? lines[lines.length - 1].weight : 0;
  const spread = Math.min(2.5, (rowHeight() - 8) / Math.max(1, state.heads.length));
  for (const line of lines) {
    const aside = (state.heads.indexOf(line.head) - (state.heads.length - 1) / 2) * spread;
    const [from, to] = [line.query, line.key].map((token) =>
      (listed.rowOf.get(token) + 0.5) * rowHeight() - scroller.scrollTop + aside);
    if ([from, to].every((end) => end < 0 || end > height)) continue; // passes by: neither of its tokens is in sight
    const strength = Math.min(1, line.weight / drawnLines.top);
    context.globalAlpha = 0.1 + 0.9 * strength;
    context.lineWidth = 0.75 + 2 * strength;
    context.strokeStyle = lineColour(line.head);
    context.beginPath();
    context.moveTo(0, from);
    context.bezierCurveTo(width * 0.45, from, width * 0.55, to, width, to);
    context.stroke();
  }
}

/** Draws bars and numbers beside the tokens that attend to the focused one, or vice versa. */
function drawBars() {
  const focus = focused();
  const weights = focus && weightsOf(meanOf(state.layer, state.heads), focus);
  const top = focus && Math.max(1e-9, ...listed.tokens.map((token) => weights[token]));
  for (const side of ["query", "key"]) {
    const answers = focus && side === OTHER[focus.side];
    listed.cells[side].forEach((cell, row) => {
      const token = listed.tokens[row];
      const chosen = Boolean(focus) && focus.side === side && focus.token === token;
      const weight = answers ? weights[token] : 0;
      cell.style.setProperty("--share", answers ? (weight / top).toFixed(4) : 0);
      cell.lastChild.textContent = answers && weight >= 0.0005 ? shownWeight(weight) : "";
      cell.classList.toggle("chosen", chosen);
      cell.classList.toggle("faint", Boolean(focus) && (answers ? weight < state.least : !chosen));
      cell.setAttribute("aria-selected", String(chosen && state.focus !== null));
    });
  }
  byId("scroller").style.setProperty("--bar", state.heads.length === 1 ? lineColour(state.heads[0]) : themed("ink-soft"));
}

function drawHead() {
  listTokens();
  drawLines();
  drawBars();
}

/** Pins a token, or unpins it if it is pinned already. */
function pin(side, token) {
  const same = state.focus && state.focus.side === side && state.focus.token === token;
  choose({ focus: same ? null : { side, token } });
}

function moveInColumn(side, cell, event) {
  const row = listed.rowOf.get(Number(cell.dataset.token));
  const last = listed.tokens.length - 1;
  const rows = { ArrowUp: row - 1, ArrowDown: row + 1, Home: 0, End: last, PageUp: row - 10, PageDown: row + 10 };
  const across = { ArrowLeft: "query", ArrowRight: "key" };
  if (event.key === "Enter" || event.key === " ") pin(side, Number(cell.dataset.token));
  else if (event.key in rows) enter(listed.cells[side][Math.max(0, Math.min(last, rows[event.key]))]);
  else if (event.key in across) enter(listed.cells[across[event.key]][row]);
  else return;
  event.preventDefault();
}

/** Moves the keyboard focus to a token: the Tab key reaches one token of each column. */
function enter(cell) {
  for (const other of cell.parentElement.children) other.tabIndex = -1;
  cell.tabIndex = 0;
  cell.focus();
}

for (const side of ["query", "key"]) {
  const cellOf = (event) => event.target.closest(".token");
  const hover = (event) => {
    const cell = cellOf(event);
    const token = cell && Number(cell.dataset.token);
    if (cell && !(state.hover?.side === side && state.hover.token === token)) choose({ hover: { side, token } });
  };
  columns[side].addEventListener("pointerover", hover);
  columns[side].addEventListener("focusin", hover);
  columns[side].addEventListener("pointerleave", () => choose({ hover: null }));
  columns[side].addEventListener("focusout", () => choose({ hover: null }));
  columns[side].addEventListener("click", (event) => {
    const cell = cellOf(event);
    if (cell) pin(side, Number(cell.dataset.token));
  });
  columns[side].addEventListener("keydown", (event) => {
    const cell = cellOf(event);
    if (cell) moveInColumn(side, cell, event);
  });
}
byId("scroller").addEventListener("scroll", drawLines, { passive: true });

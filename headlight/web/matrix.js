// Matrix view: the map of a head with its labels, on a canvas of the visible size.

const SMALLEST_LABELLED = 9; // pixels a cell
const MOST_PIXELS = 4096; // of the map's side; browsers refuse canvases of a few times as many
const board = byId("matrix");
const painted = { key: null, image: null, top: 1 };
const LABEL_FONT = '"SFMono-Regular", ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace';

/** Returns the greatest height of the board, in pixels: a small map leaves no gap below it. */
const tallest = () => Number.parseFloat(getComputedStyle(board).maxHeight);

/** Returns the layout: tokens, pixels per cell, and room for the labels. */
function geometry() {
  const tokens = shown();
  const narrow = board.clientWidth < 500;
  const room = Math.min(board.clientWidth, tallest()) - (narrow ? 84 : 124);
  const cell = state.cell || Math.max(13, Math.min(64, Math.floor(room / Math.max(1, tokens.length))));
  return { tokens, cell, ...labelRoom(tokens, cell, narrow ? 72 : 124) };
}

/** Pixels of the labels of a map, and of the margin that holds them, `most` at most. */
function labelRoom(tokens, cell, most) {
  const font = Math.min(13, Math.max(8, cell - 2));
  const longest = Math.max(2, ...tokens.map((token) => Array.from(data.labels[token]).length));
  const margin = cell < SMALLEST_LABELLED ? 34 : Math.min(most, 18 + longest * font * 0.62);
  return { font, margin: Math.max(margin, 54) };
}

/** Returns the map of the chosen heads as an image with one pixel per cell. */
function paintedMap(tokens) {
  const key = [edition, state.layer, state.heads, state.hideSpecial, state.oneScale, isDark()].join("|");
  if (painted.key !== key) {
    const map = meanOf(state.layer, state.heads);
    painted.top = state.oneScale ? greatestOfAll(tokens) : greatest(map, tokens).weight || 1;
    painted.image = mapImage(map, tokens, painted.top, MOST_PIXELS);
    painted.key = key;
  }
  return painted.image;
}

/** Returns the greatest weight of all heads: the top of one scale for all. */
function greatestOfAll(tokens) {
  const tops = data.layers.flatMap((_, place) =>
    Array.from({ length: HEADS }, (_, head) => greatest(mapOf(place, head), tokens).weight));
  return Math.max(...tops) || 1;
}

/** Cuts a label to a width in pixels. Characters stay whole. */
function cut(context, label, room) {
  if (context.measureText(label).width <= room) return label;
  const chars = Array.from(label).slice(0, 60);
  while (chars.length > 1 && context.measureText(`${chars.join("")}…`).width > room) chars.pop();
  return `${chars.join("")}…`;
}

function drawMatrix() {
  const { tokens, cell, font, margin } = geometry();
  const side = tokens.length * cell;
  const space = byId("matrix-space");
  space.style.width = space.style.height = `${margin + side + 2}px`;
  const [width, height] = [board.clientWidth, Math.min(tallest(), margin + side + 2)];
  const context = fitted(byId("cells"), width, height);
  context.imageSmoothingEnabled = false;
  context.save();
  context.beginPath();
  context.rect(margin, margin, width - margin, height - margin);
  context.clip();
  const [left, top] = [margin - board.scrollLeft, margin - board.scrollTop];
  context.drawImage(paintedMap(tokens), left, top, side, side);
  context.strokeStyle = themed("line");
  context.strokeRect(left + 0.5, top + 0.5, side - 1, side - 1);
  const read = state.at && [tokens.indexOf(state.at.query), tokens.indexOf(state.at.key)];
  if (read) drawCross(context, left, top, cell, side, read);
  context.restore();
  drawLabels(context, { tokens, cell, font, margin, left, top, width, height, read });
}

/** Frames the row, the column and the cell under the pointer or the keyboard. */
function drawCross(context, left, top, cell, side, [row, column]) {
  context.strokeStyle = themed("accent");
  context.globalAlpha = 0.55;
  context.strokeRect(left + 0.5, top + row * cell + 0.5, side - 1, cell - 1);
  context.strokeRect(left + column * cell + 0.5, top + 0.5, cell - 1, side - 1);
  context.globalAlpha = 1;
  context.lineWidth = 2;
  context.strokeRect(left + column * cell, top + row * cell, cell, cell);
  context.lineWidth = 1;
}

/** Labels the visible rows and columns; if cells are too small, with numbers at even distances. */
function drawLabels(context, { tokens, cell, font, margin, left, top, width, height, read }) {
  const named = cell >= SMALLEST_LABELLED;
  const step = named ? 1 : [5, 10, 20, 50, 100, 200, 500].find((many) => many * cell >= 34) ?? 1000;
  context.textBaseline = "middle";
  context.textAlign = "right";
  const write = (row, at, x, y, turn) => {
    const chosen = read && read[at] === row;
    if (!chosen && (row % step || (!named && (!row || (read && Math.abs(row - read[at]) * cell < 14))))) return;
    context.save();
    context.translate(x, y);
    context.rotate(turn);
    context.font = `${chosen ? "600 " : ""}${named ? font : 10}px ${LABEL_FONT}`;
    context.fillStyle = themed(chosen ? "accent" : data.special[tokens[row]] ? "ink-soft" : "ink");
    context.textAlign = turn ? "left" : "right";
    context.fillText(named ? cut(context, data.labels[tokens[row]], margin - 10) : String(tokens[row]), 0, 0);
    context.restore();
  };
  const inSight = (start, end) => [Math.max(0, Math.floor(start / cell)), Math.min(tokens.length, Math.ceil(end / cell))];
  const clipped = (x, y, wide, high, paint) => {
    context.save();
    context.beginPath();
    context.rect(x, y, wide, high);
    context.clip();
    paint();
    context.restore();
  };
  const [firstRow, endRow] = inSight(margin - top, height - top);
  clipped(0, margin, margin, height - margin, () => {
    for (let row = firstRow; row < endRow; row++) write(row, 0, margin - 6, top + (row + 0.5) * cell, 0);
  });
  const [firstColumn, endColumn] = inSight(margin - left, width - left);
  clipped(margin, 0, width - margin, margin, () => {
    for (let column = firstColumn; column < endColumn; column++) write(column, 1, left + (column + 0.5) * cell, margin - 6, -Math.PI / 2);
  });
  context.font = `600 10px ${getComputedStyle(document.body).fontFamily}`;
  context.fillStyle = themed("ink-soft");
  context.fillText("key →", margin - 6, margin - 20);
  context.fillText("query ↓", margin - 6, margin - 7);
}

/** Returns the cell under the pointer, or null. */
function cellAt(event) {
  const { tokens, cell, margin } = geometry();
  const box = board.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left - board.clientLeft - margin, event.clientY - box.top - board.clientTop - margin];
  if (x < 0 || y < 0) return null;
  const [column, row] = [Math.floor((x + board.scrollLeft) / cell), Math.floor((y + board.scrollTop) / cell)];
  return row < tokens.length && column < tokens.length ? { query: tokens[row], key: tokens[column] } : null;
}

function moveInMatrix(event) {
  const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
  if (!(event.key in steps)) return;
  event.preventDefault();
  const { tokens, cell, margin } = geometry();
  if (!tokens.length) return;
  const from = state.at ?? { query: tokens[0], key: tokens[0] };
  const moved = [from.query, from.key].map((token, axis) =>
    Math.max(0, Math.min(tokens.length - 1, tokens.indexOf(token) + (state.at ? steps[event.key][axis] : 0))));
  const [row, column] = moved.map((at) => at * cell);
  board.scrollTop = Math.min(row, Math.max(board.scrollTop, row + cell + margin - board.clientHeight));
  board.scrollLeft = Math.min(column, Math.max(board.scrollLeft, column + cell + margin - board.clientWidth));
  choose({ at: { query: tokens[moved[0]], key: tokens[moved[1]] }, hover: null });
}

board.addEventListener("pointermove", (event) => {
  const at = cellAt(event);
  if (at?.query !== state.at?.query || at?.key !== state.at?.key) choose({ at, hover: null });
});
board.addEventListener("pointerleave", () => choose({ at: null, hover: null }));
board.addEventListener("keydown", moveInMatrix);
board.addEventListener("scroll", drawMatrix, { passive: true });

// The text beside the pictures: the focused token or cell, and the meaning of lines and colours.

const LISTED = 12;
const lowered = (title) => title[0].toLowerCase() + title.slice(1);

/** Returns the greatest weights of a row or a column as a list of bars. */
function weightList(entries) {
  const list = element("ol", undefined, "weights");
  const top = Math.max(1e-9, entries[0]?.weight ?? 0);
  for (const { token, weight } of entries) {
    const item = element("li");
    item.style.setProperty("--share", (weight / top).toFixed(4));
    item.append(element("span", token, "index"), element("bdi", data.labels[token], "label"));
    item.append(element("span", shownWeight(weight), "weight"));
    list.append(item);
  }
  return list;
}

/** Describes the focused token: its greatest weights, and the share of its row that is hidden. */
function describeToken({ side, token }) {
  const weights = weightsOf(meanOf(state.layer, state.heads), { side, token });
  const all = shown().map((other) => ({ token: other, weight: weights[other] }));
  const entries = all.filter(({ weight }) => weight || !FLOOR).sort((a, b) => b.weight - a.weight);
  const title = element("h2", `${side === "query" ? "Query" : "Key"} `);
  title.append(element("bdi", named(token)));
  const parts = [title, element("p", piece(token), "fine")];
  const what = side === "query" ? "attends to" : "is attended to by (a column need not sum to 1)";
  parts.push(element("p", `${what}, in ${lowered(titled(state.layer, meanNamed(state.heads)))}:`));
  parts.push(weightList(entries.slice(0, LISTED)));
  if (FLOOR) parts.push(element("p", saidLeftOut(side, all.length - entries.length, weights), "fine"));
  const rest = entries.slice(LISTED).reduce((sum, entry) => sum + entry.weight, 0);
  if (entries.length > LISTED && side === "query") parts.push(element("p", `${entries.length - LISTED} others: ${shownWeight(rest)} together`, "fine"));
  if (state.hideSpecial && side === "query") {
    const hidden = FLOOR
      ? weights.reduce((sum, weight, other) => sum + (data.special[other] ? weight : 0), 0)
      : 1 - entries.reduce((sum, entry) => sum + entry.weight, 0);
    parts.push(element("p", `${shownWeight(Math.max(0, hidden))} of this row is on special tokens that are hidden.`, "fine"));
  }
  parts.push(element("p", state.focus ? "Pinned: click it again, or press Escape, to let go." : "Click to pin.", "fine"));
  return parts;
}

/** How many weights of a row or a column are not on this page, and how much they are together. */
function saidLeftOut(side, count, weights) {
  const sum = weights.reduce((total, weight) => total + weight, 0);
  const together = side === "query" ? `, ${shownWeight(Math.max(0, 1 - sum))} of the row together` : "";
  const means = state.heads.length > 1 ? " The mean counts weights left out as 0." : "";
  return `${count} of these are left out of this page (each below ${FLOOR.toFixed(4)})${together}.${means}`;
}

function piece(token) {
  const kind = data.special[token] ? "special token, " : "";
  const text = data.segments.some(Boolean) ? `, text ${data.segments[token] + 1}` : "";
  return `${kind}piece ${data.pieces[token] || "unknown"}, id ${data.ids[token]}${text}`;
}

function describeCell({ query, key }) {
  const weight = weightsOf(meanOf(state.layer, state.heads), { side: "query", token: query })[key];
  const table = element("dl", undefined, "cell");
  for (const [name, text] of [["query", named(query)], ["key", named(key)], ["weight", heldWeight(weight)]]) {
    const line = element("div");
    const value = element("dd");
    value.append(element("bdi", text));
    line.append(element("dt", name), value);
    table.append(line);
  }
  const missing = state.heads.filter((head) => !weightsOf(mapOf(state.layer, head), { side: "query", token: query })[key]).length;
  if (FLOOR && weight && missing) table.append(element("p", `Left out in ${missing} of ${state.heads.length} heads, counted as 0.`, "fine"));
  return [element("h2", titled(state.layer, meanNamed(state.heads)) + kindSaid(state.layer, state.heads)), table];
}

const HINTS = {
  head: "Point at a token, or move to it with Tab and the arrow keys, to see its weights alone. A click or Enter pins it.",
  model: "Each map has the queries downwards and the keys to the right. Point at one, or move to it with Tab and the arrow keys, to see it larger. A click or Enter opens its lines.",
  matrix: "Point at a cell, or move with the arrow keys, to read its weight.",
};

/** Why the page opened at this head. */
function saidOpening() {
  const { layer, head, link } = data.start;
  if (!link || data.layers[state.layer] !== layer || state.heads.join() !== String(head)) return [];
  const said = element("p", undefined, "fine");
  const [from, to] = link.slice(0, 2).map((token) => element("bdi", named(token)));
  said.append("The page opened here for the strongest link: ", from, " → ", to, `, ${shownWeight(link[2])}. `);
  said.append("Links between neighbours count less, because each model has heads for the previous and the next token.");
  return [said];
}

function drawDetail() {
  const here = element("h2", titled(state.layer, headsNamed(state.heads)) + kindSaid(state.layer, state.heads));
  const focus = focused();
  let parts = [here, element("p", HINTS[state.view]), ...saidOpening()];
  if (state.view === "model") parts = [element("h2", mapsNamed()), element("p", HINTS.model)];
  if (state.view === "head" && focus) parts = [...describeToken(focus)];
  if (state.view === "matrix" && state.at) parts = [...describeCell(state.at)];
  byId("detail").replaceChildren(...parts);
  drawScale();
}

function drawScale() {
  const strip = document.querySelector(".scale");
  strip.hidden = state.view === "head" || (state.view === "model" && !state.oneScale);
  const top = { head: () => drawnLines.top, model: () => greatestOfAll(shown()), matrix: () => painted.top }[state.view];
  byId("ramp-top").textContent = strip.hidden ? "" : shownWeight(top());
  if (!strip.hidden) drawRamp();
  const means = {
    head: () => (top() ? `The stronger a line, the greater the weight; the strongest here is ${shownWeight(top())}.` : "No weight is as great as that."),
    model: () => (state.oneScale ? "One scale for all maps." : "Each map has a scale of its own, from 0 to the number below it."),
    matrix: () => (state.oneScale ? "The scale reaches the greatest weight of all heads." : "The scale reaches the greatest weight of this map."),
  };
  const repeated = state.view === "head" && HEADS > LINES.light.length ? ` Colours repeat after ${LINES.light.length} heads.` : "";
  const blank = FLOOR && state.view !== "head" ? ` Blank: left out, below ${FLOOR.toFixed(4)}.` : "";
  byId("scale-said").textContent = means[state.view]() + repeated + blank;
}

/** Writes the line above the picture: the weights that are drawn, and those that are left out. */
function drawSaid() {
  const count = shown().length;
  const parts = [];
  const focus = focused();
  if (state.view === "head" && focus) {
    const least = state.least ? ` of at least ${state.least}` : "";
    parts.push(`${focus.side === "query" ? "Query" : "Key"} ${focus.token} alone: all of its weights${least} are drawn.`);
  } else if (state.view === "head") {
    listTokens();
    const { lines, total } = chosenLines();
    const all = count * count * state.heads.length;
    const rule = state.most ? `the ${state.most === 1 ? "strongest" : `${state.most} strongest`} of each query` : "all";
    parts.push(`${lines.length.toLocaleString("en")} of ${all.toLocaleString("en")} weights drawn: ${rule}, if at least ${state.least}.`);
    if (total > lines.length) parts.push(`${(total - lines.length).toLocaleString("en")} weaker ones would be too many to draw.`);
  }
  if (state.view === "model") parts.push(`${mapsNamed()}, ${count} × ${count} weights each; queries downwards, keys to the right.`);
  if (state.view === "matrix") parts.push(`${titled(state.layer, meanNamed(state.heads))}: ${count} × ${count} weights.`);
  if (state.hideSpecial) {
    parts.push(`${COUNT - count} special tokens are hidden, nothing is computed anew: the rows shown sum to less than 1.`);
  }
  if (data.topK && data.isPartial()) parts.push(`Only the ${data.topK} largest weights of each row are here.`);
  if (FLOOR) {
    const here = state.view === "model" ? "" : `, ${percent(leftOut(meanOf(state.layer, state.heads)))} of this map`;
    parts.push(`Weights below ${FLOOR.toFixed(4)} are left out: ${percent(data.leftOut)} of all weight${here}. Rows sum to less than 1.`);
  }
  byId("said").textContent = parts.join(" ");
}

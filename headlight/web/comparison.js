// A query above its passages: the weight of each part by each method, and what each token of the query matched.
// A model that reranks reads both as a pair: the query stands with each passage, with its own weights.
// Offsets count code points, and JavaScript's strings UTF-16: texts are arrays of code points here.

const METHODS = {
  span: {
    name: "Span",
    said: "Weight: how similar this unit’s own vector is to the query. Of the passage’s one encoding, the unit’s tokens alone are averaged. It finds answers best.",
  },
  contributions: {
    name: "Contributions",
    said: "Weight: the part of the score that comes from this unit.",
    sums: " With the other tokens, all sum to the score.",
  },
  late_interaction: {
    name: "Late interaction",
    said: "Weight: the part of max-sim that comes from this unit. Each token of the query gives its largest cosine to the token of the passage that has it.",
  },
  occlusion: {
    name: "Occlusion",
    said: "Weight: how far the score falls when this unit is hidden. Below 0, the passage is more similar without it.",
    ofPairs: "Weight: how far the score falls when this unit is hidden. Below 0, the score is larger without it.",
  },
  attention: {
    name: "Attention",
    said: "Weight: what the passage’s vector reads from. It does not depend on the query. Attention is not an explanation of the score.",
    ofPairs: "Weight: what the query’s tokens read from, of a decoder the passage’s, the mean of its tokens, layers and heads. All tokens of a pair sum to 1. Attention is not an explanation of the score.",
  },
  terms: {
    name: "Terms",
    said: "Weight: that of a term of the vocabulary in the query times that in the passage. All of them sum to the dot product of the sparse vectors.",
  },
};
// What an option of evidence does to the weights.
const OPTION_NOTES = {
  per_token: "Each is divided by the number of the unit’s tokens.",
  distinct: "What the passages share is weighed down.",
};
const MOST_TERMS = 10;
const MOST_OTHERS = 6; // tokens of a pair that are of neither text; a chat template has a hundred
const CONTROL = /[\p{Cc}\u202a-\u202e\u2066-\u2069]/u; // the latter reorder what follows
const comparing = { data: null, method: null, pinned: null, passages: [], against: null };
const graphemes = globalThis.Intl?.Segmenter && new Intl.Segmenter(undefined, { granularity: "grapheme" });
const spaced = (number) => number.toFixed(3).replace("-", "−");

/** Returns a text as code points, of which those that control a display are replaced. */
const pointsOf = (text) => Array.from(text, (char) => (CONTROL.test(char) && char !== "\n" && char !== "\t" ? "�" : char));

/**
 * Shows a comparison, {similarity, best, options, query: {text, tokens}, passages: [{name, text, score, maxSim, tokens, evidence}]}.
 * `options` has, if it is there, those that each method was asked with.
 * Evidence is {method, units, weights, terms, matched, cosines, query, special}; `terms` is null, or a list of
 * [piece, product, weight in the query, weight in the passage], the largest first, without units. `tokens` and `units` are [start, end] in code points;
 * `matched` has, for each token of the query, the number of the passage's token with the largest cosine. Of a pair, `query` has
 * units and weights of the query, and `special` is a list of [piece, weight] of other tokens.
 */
function showComparison(data) {
  const methods = data.passages[0].evidence.map(({ method }) => method);
  Object.assign(comparing, { data, pinned: null, against: null, method: methods.includes(comparing.method) ? comparing.method : methods[0] });
  byId("query-part").hidden = ofPairs();
  drawContrasts();
  byId("methods").hidden = methods.length < 2;
  byId("method-choices").replaceChildren(...methods.map(methodChoice));
  drawQuery();
  drawPassages();
}

function methodChoice(method) {
  const [label, input] = [element("label"), element("input")];
  Object.assign(input, { type: "radio", name: "method", value: method, checked: method === comparing.method });
  label.append(input, element("span", METHODS[method].name));
  return label;
}

/** Draws the query; its tokens are buttons if there is something that they matched. */
function drawQuery() {
  const { query } = comparing.data;
  const points = pointsOf(query.text);
  const tokens = matches(comparing.data.passages[0]) ? query.tokens : [];
  byId("compared-query").replaceChildren(...pieces(points, [tokens]).map(({ text, members: [of] }) => {
    const made = element("span", text);
    if (!of.length) return made;
    made.setAttribute("role", "button");
    made.setAttribute("aria-pressed", "false");
    made.dataset.tokens = of.join(" ");
    made.tabIndex = -1;
    return made;
  }));
  const [first] = queryButtons();
  if (first) first.tabIndex = 0;
  byId("query-said").hidden = !first;
}

const queryButtons = () => [...byId("compared-query").querySelectorAll("[role=button]")];
const evidenceOf = (passage, method) => passage.evidence.find((each) => each.method === method);
const matches = (passage) => evidenceOf(passage, "late_interaction");
const byTerms = () => comparing.method === "terms";
const hasTerms = () => Boolean(evidenceOf(comparing.data.passages[0], "terms"));
const ofPairs = () => comparing.data.similarity === "logit";

/** Returns whether the method has weights of the query's units, which can be contrasted. */
const contrasts = () => comparing.data.passages.length > 1 && Boolean(evidenceOf(comparing.data.passages[0], comparing.method).query) && (!ofPairs() || comparing.method === "occlusion");

/** Offers the contrast with each passage whose query has the same units. */
function drawContrasts() {
  const options = comparing.data.passages.map((_, at) => [String(at), `effect, less that on passage ${at + 1}`]);
  byId("contrast").replaceChildren(...[["", "effect on the score"], ...options].map(([value, text]) => Object.assign(element("option", text), { value })));
  showContrasts();
}

/** Shows the choice of a contrast if the method has one. */
function showContrasts() {
  byId("contrasts").hidden = !contrasts();
}

/**
 * Returns units and weights of the query with a passage: of a contrast, its effect here less that on the other passage, as
 * `Comparison.contrast` of Python has it; null if the query was cut differently.
 */
function queryOf(passage) {
  const { data, method, against } = comparing;
  const { query } = evidenceOf(passage, method);
  if (against === null || !contrasts()) return query;
  const other = evidenceOf(data.passages[against], method).query;
  if (JSON.stringify(query.units) !== JSON.stringify(other.units)) return null;
  return { units: query.units, weights: [...query.weights].map((weight, at) => weight - other.weights[at]) };
}

/** Draws the passages by the chosen method. */
function drawPassages() {
  const { data, method } = comparing;
  const weights = data.passages.flatMap((passage) => [...evidenceOf(passage, method).weights, ...(queryOf(passage)?.weights ?? [])]);
  const top = Math.max(1e-9, ...weights.map(Math.abs));
  comparing.passages = data.passages.map((passage, at) => passageOf(passage, at, top));
  byId("compared-passages").replaceChildren(...comparing.passages.map(({ item }) => item));
  const contrasted = comparing.against === null || !contrasts() ? "" : ` Of the query: its effect with this passage, less that with passage ${comparing.against + 1}: the part of the difference of both scores.`;
  const notes = (data.options?.[method] ?? []).filter((option) => option in OPTION_NOTES).map((option) => ` ${OPTION_NOTES[option]}`);
  const noted = notes.join("") || (METHODS[method].sums ?? "");
  byId("method-said").textContent = ((ofPairs() && METHODS[method].ofPairs) || METHODS[method].said) + noted + contrasted;
  showContrasts();
  byId("weight-top").textContent = spaced(top);
  document.querySelector(".scale").hidden = byTerms();
  byId("best-said").hidden = byTerms();
  const below = weights.some((weight) => weight < 0);
  byId("below-zero").hidden = !below;
  byId("weight-least").textContent = below ? spaced(-top) : "0";
  const each = ofPairs() ? "each text" : "each passage";
  byId("best-said").textContent = data.best === 1 ? `Underlined: the largest above 0 of ${each}.` : `Underlined: the ${data.best} largest above 0 of ${each}.`;
  byId("scores-said").textContent = ofPairs() ? "Score: the logit of the query and the passage, which the model reads as a pair." : data.similarity === "max_sim" ? "Score: max-sim, the sum over the query’s vectors of the largest product with a vector of the passage." : hasTerms() && data.similarity === "dot" ? `Score: ${data.similarity} of the sparse vectors.` : `Score: ${data.similarity} of the pooled vectors. Max-sim: the mean over the query’s tokens of the largest cosine with a token of the passage.`;
  drawNumbers();
  mark(comparing.pinned ?? []);
}

/** Returns the element of a passage, its code points, and the spans that show its tokens. */
function passageOf(passage, at, top) {
  const points = pointsOf(passage.text);
  const tokens = ofPairs() ? [] : passage.tokens; // those of a pair are of two texts
  const { text, marks } = weighted(points, evidenceOf(passage, comparing.method), tokens, top);
  const item = element("li", undefined, "passage");
  const head = element("div", undefined, "passage-head");
  head.append(element("h3", `${at + 1}.`), numberOf("score", passage.score));
  if (passage.maxSim !== null) head.append(numberOf("max-sim", passage.maxSim));
  if (passage.name) head.append(element("bdi", passage.name, "fine"));
  const match = element("p", undefined, "match");
  const { terms, special } = evidenceOf(passage, comparing.method);
  const others = special.length ? [othersPart(special)] : [];
  const query = evidenceOf(passage, comparing.method).query ? [queryPart(passage, at, top)] : [];
  const parts = ofPairs() ? [...query, ...others, text] : [...query, text, ...others];
  item.append(head, ...parts, ...(terms ? [termsPart(terms)] : []), match);
  match.hidden = ofPairs();
  return { item, points, marks, match };
}

/** Returns the query with its weights in a pair. */
function queryPart(passage, at, top) {
  const query = queryOf(passage);
  const line = query ? weighted(pointsOf(comparing.data.query.text), query, [], top).text : element("p", "The query was cut differently in these pairs.", "fine");
  line.classList.add("pair-query");
  line.setAttribute("aria-label", `Query with passage ${at + 1}`);
  return line;
}

/** Returns the largest weights of tokens that are no unit's, and the sum of the rest. */
function othersPart(special) {
  const others = element("p", "Other tokens: ", "fine pair-others");
  const least = [...special].sort((a, b) => b[1] - a[1])[MOST_OTHERS - 1]?.[1] ?? -Infinity;
  const shown = special.filter(([, weight]) => weight >= least).slice(0, MOST_OTHERS);
  shown.forEach(([piece, weight], place) => others.append(place ? ", " : "", element("bdi", pointsOf(piece).join("")), ` ${spaced(weight)}`));
  const sum = (rows) => rows.reduce((all, [, weight]) => all + weight, 0);
  if (shown.length < special.length) others.append(`, ${special.length - shown.length} more ${spaced(sum(special) - sum(shown))}`);
  return others;
}

/** Returns the largest shared terms, and the sum of the rest. */
function termsPart(terms) {
  const made = element("p", terms.length ? "Terms: " : "No term is shared.", "fine terms");
  terms.slice(0, MOST_TERMS).forEach(([piece, product, query, passage], place) =>
    made.append(place ? ", " : "", element("bdi", pointsOf(piece).join("")), ` ${spaced(product)} (${spaced(query)} × ${spaced(passage)})`));
  const rest = terms.slice(MOST_TERMS);
  if (rest.length) made.append(`, ${rest.length} more ${spaced(rest.reduce((all, [, product]) => all + product, 0))}`);
  return made;
}

/** Returns an element with a text whose units have the colours of their weights, and the spans of each of its tokens. */
function weighted(points, { units, weights }, textTokens, top) {
  const best = new Set([...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, comparing.data.best).filter((unit) => weights[unit] > 0));
  const text = element("p", undefined, "passage-text");
  text.dir = "auto";
  const marks = textTokens.map(() => []);
  for (const { text: piece, members: [of, tokens] } of pieces(points, [units, textTokens])) {
    const made = element("span", piece);
    const [unit] = [...of].sort((a, b) => Math.abs(weights[b]) - Math.abs(weights[a]));
    if (unit !== undefined && weights[unit]) {
      made.className = weights[unit] < 0 ? "unit below" : "unit";
      made.style.setProperty("--share", (Math.abs(weights[unit]) / top).toFixed(3));
      made.classList.toggle("best", of.some((each) => best.has(each)));
    }
    for (const token of tokens) marks[token].push(made);
    text.append(made);
  }
  return { text, marks };
}

function numberOf(name, value) {
  const made = element("span", undefined, "score");
  made.append(element("span", `${name} `, "fine"), spaced(value));
  return made;
}

/**
 * Returns a text in pieces, [{text, members}]: `members` has, for each list of spans, the numbers of those that cover the
 * piece. A piece never ends inside an emoji or a combined letter, so spans that do so are widened.
 */
function pieces(points, lists) {
  const whole = graphemeOf(points);
  const found = [];
  const covered = lists.map((spans) => {
    const at = points.map(() => []);
    spans.forEach(([start, end], number) => {
      if (start >= end) return;
      const last = whole[Math.min(end, points.length) - 1];
      for (let place = whole.indexOf(whole[start], Math.max(0, start - 64)); place < points.length && whole[place] <= last; place++) at[place].push(number);
    });
    return at;
  });
  let key = null;
  points.forEach((char, place) => {
    const members = covered.map((at) => at[place]);
    const here = JSON.stringify(members);
    if (here === key) found.at(-1).text += char;
    else found.push({ text: char, members });
    key = here;
  });
  return found;
}

/** Returns the number of the grapheme of each code point. */
function graphemeOf(points) {
  if (!graphemes) return points.map((_, at) => at);
  return [...graphemes.segment(points.join(""))].flatMap(({ segment }, number) => Array.from(segment, () => number));
}

const quoted = (points, [start, end]) => `“${points.slice(start, end).join("")}”`;

/** Marks what some tokens of the query matched, and says how well. */
function mark(tokens) {
  const { data, passages, pinned } = comparing;
  for (const button of queryButtons()) {
    button.classList.toggle("chosen", button.dataset.tokens === tokens.join(" "));
    button.setAttribute("aria-pressed", String(button.dataset.tokens === pinned?.join(" ")));
  }
  const asked = pointsOf(data.query.text);
  let best = null;
  passages.forEach(({ points, marks, match }, at) => {
    const passage = data.passages[at];
    const found = matches(passage);
    for (const made of marks.flat()) made.classList.remove("matched");
    match.replaceChildren();
    for (const token of found?.matched?.length ? tokens : []) {
      const [place, cosine] = [found.matched[token], found.cosines[token]];
      for (const made of marks[place]) made.classList.add("matched");
      const [from, to] = [quoted(asked, data.query.tokens[token]), quoted(points, passage.tokens[place])];
      match.append(element("bdi", from), " matches ", element("bdi", to), `, cosine ${spaced(cosine)}. `);
      if (!best || cosine > best.cosine) best = { from, to, cosine, at };
    }
  });
  const said = best ? `${best.from} matches best in passage ${best.at + 1}: ${best.to}, cosine ${spaced(best.cosine)}.` : "";
  if (byId("match-said").textContent !== said) byId("match-said").textContent = said;
}

/** Shows or hides the numbers: units by weight, and the matches of the query's tokens. */
function drawNumbers() {
  const { data, passages, method } = comparing;
  passages.forEach(({ item, points }, at) => {
    item.querySelector(".numbers")?.remove();
    if (!byId("numbers").checked) return;
    const passage = data.passages[at];
    const part = element("div", undefined, "numbers");
    const by = METHODS[method].name.toLowerCase();
    const query = queryOf(passage);
    if (query) part.append(weightsTable(`Weights of the query with passage ${at + 1} by ${by}`, "unit of the query", pointsOf(data.query.text), query));
    const { terms } = evidenceOf(passage, method);
    if (terms) part.append(numbersTable(`Terms of passage ${at + 1}`, ["term", "weight", "in the query", "in the passage"], terms.map(([piece, ...numbers]) => [pointsOf(piece).join(""), ...numbers.map(spaced)])));
    else part.append(weightsTable(`Weights of passage ${at + 1} by ${by}`, "unit", points, evidenceOf(passage, method)));
    const found = matches(passage);
    if (found?.matched?.length) {
      const asked = pointsOf(data.query.text);
      const pairs = [...found.matched].map((place, token) => [
        asked.slice(...data.query.tokens[token]).join(""), points.slice(...passage.tokens[place]).join(""), spaced(found.cosines[token]),
      ]);
      part.append(numbersTable(`Matches in passage ${at + 1}`, ["query token", "passage token", "cosine"], pairs));
    }
    item.append(part);
  });
}

function weightsTable(name, title, points, { units, weights }) {
  const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]);
  const rows = order.map((unit) => [points.slice(...units[unit]).join(""), units[unit].join("–"), spaced(weights[unit])]);
  return numbersTable(name, [title, "characters", "weight"], rows);
}

function numbersTable(name, titles, rows) {
  const [region, table] = [element("div", undefined, "wide-table"), element("table")];
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", name);
  fillTable(table, titles, rows, titles.map((title) => (["characters", "weight", "cosine", "in the query", "in the passage"].includes(title) ? "number" : "mono")));
  region.append(table);
  return region;
}

/** Attaches the events; once for a page. */
function buildComparison() {
  const query = byId("compared-query");
  const tokensAt = ({ target }) => target.dataset.tokens?.split(" ").map(Number);
  const look = (event) => comparing.data && mark(tokensAt(event) ?? comparing.pinned ?? []);
  const leave = () => comparing.data && mark(comparing.pinned ?? []);
  query.addEventListener("pointerover", look);
  query.addEventListener("focusin", look);
  query.addEventListener("pointerleave", leave);
  query.addEventListener("focusout", leave);
  const pin = (event) => {
    const tokens = tokensAt(event);
    if (!tokens) return;
    comparing.pinned = comparing.pinned?.join() === tokens.join() ? null : tokens;
    mark(tokens);
  };
  query.addEventListener("click", pin);
  query.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") pin(event);
    else if (!moved(event)) return;
    event.preventDefault();
  });
  addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !comparing.pinned) return;
    comparing.pinned = null;
    mark([]);
  });
  byId("methods").addEventListener("change", (event) => {
    comparing.method = event.target.value;
    drawPassages();
  });
  byId("numbers").addEventListener("change", drawNumbers);
  byId("contrast").addEventListener("change", (event) => {
    comparing.against = event.target.value === "" ? null : Number(event.target.value);
    drawPassages();
  });
}

/** Moves the focus to another token of the query, by an arrow key; returns whether there is one. */
function moved({ key, target }) {
  const buttons = queryButtons();
  const ahead = getComputedStyle(byId("compared-query")).direction === "rtl" ? "ArrowLeft" : "ArrowRight";
  const step = { ArrowLeft: -1, ArrowRight: -1, ArrowUp: -1, ArrowDown: 1, [ahead]: 1 }[key];
  const to = { Home: buttons[0], End: buttons.at(-1) }[key] ?? (step && buttons[buttons.indexOf(target) + step]);
  if (!to) return false;
  for (const button of buttons) button.tabIndex = button === to ? 0 : -1;
  to.focus();
  return true;
}

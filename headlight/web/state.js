// The state of the page. The address has it after the #, so that a link shows the sender's view.

const VIEWS = ["head", "model", "matrix"];
const state = {
  view: "head",
  layer: 0, // an index in data.layers
  heads: [0],
  several: false,
  most: 0,
  least: 0,
  cell: 0, // pixels; 0: as large as fits
  oneScale: false,
  hideSpecial: false,
  theme: "system",
  focus: null, // {side: "query" | "key", token}: pinned
  hover: null, // the same, under the pointer; a pinned one wins
  at: null, // {query, key}: the chosen cell of the matrix
};

/** Sets what depends on the data: layer, head, and which lines are drawn. */
function openState() {
  Object.assign(state, {
    layer: data.layers.indexOf(data.start.layer),
    heads: [data.start.head],
    several: false,
    most: COUNT <= 12 ? 0 : COUNT <= 60 ? 3 : 2,
    // The greatest weight of a row is 1 / COUNT or more, so each query keeps a line however even its attention is.
    least: Math.max(FLOOR, Math.min(0.01, Math.floor(1e4 / COUNT) / 1e4)),
    focus: null,
    hover: null,
    at: null,
  });
}

const integers = (text) => (text ?? "").split(",").filter((part) => /^\d{1,6}$/.test(part)).map(Number);
const oneOf = (choices, value, otherwise) => (choices.includes(value) ? value : otherwise);

/** Reads the valid parts of the address into the state; the rest of the state stays. */
function readAddress() {
  const asked = new URLSearchParams(location.hash.slice(1));
  state.view = oneOf(VIEWS, asked.get("view"), state.view);
  state.theme = oneOf(THEMES, asked.get("theme"), state.theme);
  const [layer] = integers(asked.get("layer"));
  if (data.layers.includes(layer)) state.layer = data.layers.indexOf(layer);
  const heads = [...new Set(integers(asked.get("head")))].filter((head) => head < HEADS).sort((a, b) => a - b);
  if (heads.length) [state.heads, state.several] = [heads, heads.length > 1];
  const [most] = integers(asked.get("most"));
  if ([0, 1, 2, 3, 5, 10].includes(most)) state.most = most;
  const least = Number.parseFloat(asked.get("least"));
  if (least >= 0 && least <= 1) state.least = Math.max(FLOOR, least);
  state.hideSpecial = asked.has("special") ? asked.get("special") === "hide" : state.hideSpecial;
  const token = /^([qk])(\d{1,6})$/.exec(asked.get("token") ?? "");
  if (token && Number(token[2]) < COUNT) state.focus = { side: token[1] === "q" ? "query" : "key", token: Number(token[2]) };
}

/** Returns what the address has of the view of attention. */
function viewAddress() {
  const lines = { most: state.most, least: state.least, ...(state.focus ? { token: `${state.focus.side[0]}${state.focus.token}` } : {}) };
  return {
    view: state.view, layer: data.layers[state.layer], head: state.heads.join(),
    ...(state.view === "head" ? lines : {}),
    ...(state.hideSpecial ? { special: "hide" } : {}),
  };
}

const themeAddress = () => (state.theme === "system" ? {} : { theme: state.theme });

/** Returns what the address has; the page of the service has a form, too. */
let formAddress = () => ({ ...viewAddress(), ...themeAddress() });

/** Writes the address, without a new entry in the history. */
function writeAddress() {
  written = `#${new URLSearchParams(formAddress())}`.replaceAll("%2C", ",");
  try {
    history.replaceState(null, "", written);
  } catch {
    // A browser may forbid it for a page in a frame without an address; the page works without it.
  }
}
let written = "";

/** Changes the state (the only way to do so), corrects impossible choices, and draws again. */
function choose(changes) {
  Object.assign(state, changes);
  showTheme(state.theme);
  if (!data) return;
  if (!state.heads.length) state.heads = [0];
  const hidden = (token) => state.hideSpecial && data.special[token];
  if (state.focus && hidden(state.focus.token)) state.focus = null;
  if (state.hover && hidden(state.hover.token)) state.hover = null;
  if (state.at && (hidden(state.at.query) || hidden(state.at.key))) state.at = null;
  draw();
  const fleeting = Object.keys(changes).every((name) => name === "hover" || name === "at");
  if (!fleeting) writeAddress();
}

const focused = () => state.focus ?? state.hover;
const shown = () => shownTokens(state.hideSpecial);

// Attention of one text: the requests, and how it comes. Short texts come whole. Of long ones the largest weights
// of each row come first, for the map of all heads; then the layers that are looked at, each whole.

const AT_ONCE = 2 ** 21; // bytes of attention that come and are drawn without a noticeable pause
const MOST_KEPT = 32; // largest weights of a row of a long text
const FAR = 8; // tokens; links as long as that, or longer, have the same factor
const MOST_PARTS = 6; // whole layers in memory
const FORMS = {
  heads: {},
  mean: { reduce: ["REDUCTION_HEAD_MEAN"] },
  max: { reduce: ["REDUCTION_HEAD_MAX"] },
  rollout: { reduce: ["REDUCTION_ROLLOUT"] },
};
const source = { settings: null, fromLink: false, count: 0, overview: [], parts: [], waiting: new Set(), failed: null, controller: new AbortController() };


TASKS.attention = {
  title: "Attention",
  send: "Show attention",
  does: (info) => gives(info, "attention"),
  fields: () => (byId("pair").checked ? ["text", "second"] : ["text"]),
  options: ["pair", "truncation", "form", "unit"],
  path: "v1/encode",
  method: "Encode",
  section: "views",
  request: (settings) => attentionRequest(settings, {}),
  python: attentionPython,
  run: showAttention,
  show: () => draw(),
  pictured: () => byId(`${state.view}-view`),
  caption: () => ({
    head: () => titled(state.layer, headsNamed(state.heads)),
    model: mapsNamed,
    matrix: () => `${titled(state.layer, meanNamed(state.heads))}, colours from 0 to ${shownWeight(painted.top)}`,
  })[state.view](),
  writeView: () => (data ? viewAddress() : {}),
  readView() {
    Object.assign(source, { fromLink: true });
    Object.assign(chosen, { layer: null, heads: null });
  },
};

/** Returns a request of these inputs, and of attention in a form. */
const attentionRequest = (settings, attention) =>
  ({ inputs: [inputOf(settings)], ...longer(settings), outputs: { token_info: {}, attention: { ...FORMS[settings.form], ...(settings.unit === "word" ? { unit: "UNIT_WORD" } : {}), ...attention } } });

/** Returns extents by axis of an answer: {layer, head, query, key | top}; an axis that is gone has 1. */
function extentsOf(answer) {
  const sizes = answer.attention.shapes[0].sizes;
  const extents = Object.fromEntries(answer.attention_map.axes.map((axis, at) => [axis, sizes[at]]));
  return { layer: 1, head: 1, ...extents };
}

/** Asks for the attention of a text or a pair, and shows it. */
async function showAttention(settings) {
  if (state.focus) choose({ focus: null });
  const { signal } = source.controller;
  const plan = await encode({ ...attentionRequest(settings, {}), dry_run: true }, signal);
  const tokens = shownUnits(plan, settings);
  const { layer: layers, head: heads } = extentsOf(plan);
  const count = tokens.labels.length;
  const whole = layers * heads * count * count * 4 <= Math.min(AT_ONCE, answerLimit());
  const topK = whole ? 0 : Math.max(1, Math.min(MOST_KEPT, count, Math.floor(AT_ONCE / (layers * heads * count * 4))));
  const answer = await encode(attentionRequest(settings, whole ? {} : { top_k: topK, dtype: "DATA_TYPE_FLOAT16" }), signal);
  const values = numbersOf(answer.attention);
  const places = topK && numbersOf(answer.attention_indices);
  const overview = Array.from({ length: layers * heads }, (_, at) => lazily(() =>
    (topK ? topMap(values, places, at * count * topK, count, topK) : denseMap(values, at * count * count, count))));
  Object.assign(source, { settings, count, overview, parts: [], waiting: new Set(), failed: null });
  const described = {
    ...tokens, heads, layers: answer.attention.layers, floor: 0, topK,
    isPartial: () => state.view === "model" || missingHeads().length > 0,
    reduced: { mean: "mean of all heads", max: "largest of all heads", rollout: "rollout" }[settings.form],
    rollout: settings.form === "rollout",
    words: settings.unit === "word",
  };
  if (described.rollout) described.layers = [answer.attention.layers.at(-1)];
  show(described, answer);
}

const lazily = (make) => {
  let value = null;
  return () => (value ??= make());
};

/** The layer and the heads that the reader chose stay for the next text, if it has them. */
const chosen = { layer: null, heads: null };

function show(described, answer) {
  const whole = (place, head) => {
    const part = partOf(place, head);
    return part ? part.maps[head - part.begin]() : source.overview[place * described.heads + head]();
  };
  described.start = opening(described, whole);
  const { fromLink } = source;
  source.fromLink = false;
  byId("views").hidden = false;
  hold(described, whole);
  openViews(() => {
    if (fromLink) readAddress();
    if (data.layers.includes(chosen.layer)) state.layer = data.layers.indexOf(chosen.layer);
    const heads = (chosen.heads ?? []).filter((head) => head < HEADS);
    if (heads.length) [state.heads, state.several] = [heads, heads.length > 1];
  });
  showSums(described);
  showTokens(answer.items[0], inputOf(source.settings));
}

/** Returns the head with the strongest link, by the same rule as page.py. */
function opening({ layers, heads, labels, special }, map) {
  const plain = labels.map((_, at) => !special[at]);
  const words = plain.map((is, at) => is && /[\p{L}\p{N}]/u.test(labels[at]));
  const linked = words.filter(Boolean).length > 1 ? words : plain;
  const factors = Float64Array.from({ length: labels.length }, (_, distance) => Math.log1p(Math.min(distance, FAR)));
  let best = { layer: layers.at(-1), head: 0 };
  let greatest = 0;
  layers.forEach((layer, place) => {
    for (let head = 0; head < heads; head++) {
      const { starts, keys, weights } = map(place, head);
      for (let query = 0; query < labels.length; query++) {
        if (!linked[query]) continue;
        for (let at = starts[query]; at < starts[query + 1]; at++) {
          if (!linked[keys[at]]) continue;
          const strength = weights[at] * factors[Math.abs(keys[at] - query)];
          if (strength > greatest) [greatest, best] = [strength, { layer, head, link: [query, keys[at], weights[at]] }];
        }
      }
    }
  });
  return best;
}

/** Returns whether the view's weights are here, all of each row; if not, asks for them. */
arrived = () => {
  const selection = `${state.layer}:${state.heads}`;
  if (selection !== source.failed) source.failed = null;
  const missing = state.view === "model" || source.failed ? [] : missingHeads();
  document.querySelector("main").setAttribute("aria-busy", String(missing.length > 0));
  if (missing.length) {
    fetchPart(state.layer, missing[0]).catch((error) => {
      if (error.name === "AbortError") return;
      source.failed = selection; // not requested again before another place is chosen; its largest weights are drawn
      showProblem(error);
      draw();
    });
  }
  return !missing.length;
};

const partOf = (place, head) => source.parts.find((part) => part.place === place && head >= part.begin && head < part.end);
/** Returns the chosen heads of which only the largest weights are here. */
const missingHeads = () => (data.topK ? state.heads.filter((head) => !partOf(state.layer, head)) : []);

/** Fetches the layer, or as many of its heads as one answer carries, from `head` on; then draws. */
async function fetchPart(place, head) {
  const each = source.count ** 2 * 2; // bytes of one head as float16
  const many = Math.floor(answerLimit() / each);
  if (!many) throw new ServiceError(0, tooLong(each));
  const begin = HEADS <= many ? 0 : head;
  const end = Math.min(HEADS, begin + many);
  const [key, held, { signal }] = [`${place}:${begin}`, data, source.controller];
  if (source.waiting.has(key)) return;
  source.waiting.add(key);
  byId("said").textContent = `Asking for all weights of ${lowered(titled(place, headsNamed(state.heads)))} …`;
  try {
    const places = data.rollout ? {} : { layers: [data.layers[place]] };
    const heads = data.reduced || (begin === 0 && end === HEADS) ? {} : { head_runs: [{ begin, end }] };
    const answer = await encode(attentionRequest(source.settings, { ...places, ...heads, dtype: "DATA_TYPE_FLOAT16" }), signal);
    if (data !== held) return;
    const [values, count] = [numbersOf(answer.attention), source.count];
    const maps = Array.from({ length: end - begin }, (_, at) => lazily(() => denseMap(values, at * count * count, count)));
    if (source.parts.length >= MOST_PARTS) source.parts = source.parts.filter((part) => part.place === state.layer);
    source.parts.push({ place, begin, end, maps });
  } finally {
    source.waiting.delete(key);
  }
  edition += 1;
  clearProblem();
  draw();
}

const tooLong = (bytes) =>
  `One head of ${source.count} tokens has ${(bytes / 1e6).toFixed(1)} MB; one answer has at most ${(answerLimit() / 1e6).toFixed(1)} MB. ` +
  "The largest weights of each row are shown. For all of them shorten the text, or use “headlight attend --html”.";

/** Returns the Python of an attention request: `attend` for each head, `attention` with a spec for other forms. */
function attentionPython(settings) {
  const { text: first, second, pair, form, unit } = settings;
  const text = pair ? `(${JSON.stringify(first)}, ${JSON.stringify(second)})` : JSON.stringify(first);
  if (form === "heads" && unit === "token") {
    return {
      imports: ["from headlight import Client"],
      lines: [`attention = client.attend(${text}${truncated(settings)})`, "print(attention.tokens.labels(attention.text))", `print(attention.head(${data.layers[state.layer]}, ${state.heads[0]}))  # rows are queries`],
    };
  }
  const reduce = { mean: 'reduce="head_mean"', max: 'reduce="head_max"', rollout: 'reduce="rollout"' }[form];
  const options = [reduce, unit === "word" && 'unit="word"'].filter(Boolean).join(", ");
  return {
    imports: ["from headlight import AttentionSpec, Client"],
    lines: [`spec = AttentionSpec.of(${options})`, `(maps,) = client.attention([${text}], spec${truncated(settings)})`, "print(maps.axes, maps.values)"],
  };
}

function showSums({ topK }) {
  const rows = { max: "The largest of the heads is taken entry by entry, so rows do not sum to 1.", rollout: "Rollout: the heads’ mean plus the identity, multiplied over all layers (Abnar & Zuidema 2020)." };
  const numbers = topK ? " Weights came as float16, each off by at most 1/2048 of itself." : "";
  byId("sums").textContent = `Rows are queries, columns keys. ${rows[source.settings.form] ?? "Each row of a map sums to 1."}${numbers} ` +
    "Attention shows where a head takes its input from; it is not an explanation of the model’s output.";
}

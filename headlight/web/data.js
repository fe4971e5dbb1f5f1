// The page's data, and sums over it. Nothing here changes the display.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const COUNT = data.labels.length; // tokens
const HEADS = data.heads;
const UNIT = 65535; // the integer that stands for a weight of 1

// uint16, little-endian like all machines with a browser: layer by layer, head by head, row by row.
const stored = (() => {
  const block = byId("weights");
  const binary = atob(block.textContent);
  block.remove(); // megabytes that are not read again
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return new Uint16Array(bytes.buffer);
})();

/** Returns one head as a view, [COUNT * COUNT] integers; `place` is the index in data.layers. */
function rawHead(place, head) {
  const size = COUNT * COUNT;
  const start = (place * HEADS + head) * size;
  return stored.subarray(start, start + size);
}

/** Returns the mean of heads of a layer, [COUNT * COUNT] weights from 0 to 1; caches the last. */
const meanOf = (() => {
  let kept = { key: null, weights: null };
  return (place, heads) => {
    const key = `${place}:${heads.join()}`;
    if (kept.key === key) return kept.weights;
    const weights = new Float32Array(COUNT * COUNT);
    for (const head of heads) {
      const raw = rawHead(place, head);
      for (let at = 0; at < raw.length; at++) weights[at] += raw[at] / (UNIT * heads.length);
    }
    kept = { key, weights };
    return weights;
  };
})();

/** Returns the greatest weight among the shown tokens; never 0, because it is a divisor. */
function greatest(weights, shown) {
  let top = 0;
  for (const query of shown) for (const key of shown) top = Math.max(top, weights[query * COUNT + key]);
  return top || 1;
}

/** Returns the indices of the shown tokens. */
function shownTokens(hideSpecial) {
  const all = data.labels.map((_, at) => at);
  return hideSpecial ? all.filter((at) => !data.special[at]) : all;
}

/**
 * Returns the lines of one head, [{head, query, key, weight}]: for each query, its `most` greatest
 * weights (0: all) of `least` or more.
 */
function strongest(place, head, shown, most, least) {
  const raw = rawHead(place, head);
  const lines = [];
  for (const query of shown) {
    const row = [];
    for (const key of shown) {
      const weight = raw[query * COUNT + key] / UNIT;
      if (weight >= least && weight > 0) row.push({ head, query, key, weight });
    }
    if (most && row.length > most) row.sort((a, b) => b.weight - a.weight).length = most;
    lines.push(...row);
  }
  return lines;
}

/** Formats a weight with three decimals; "<0.001" for a weight that would round to 0.000. */
function shownWeight(weight) {
  if (weight > 0 && weight < 0.0005) return "<0.001";
  return weight.toFixed(3);
}

/** Returns a token's index and label, for a sentence. */
const named = (token) => `${token} “${data.labels[token]}”`;
const headsNamed = (heads) => {
  if (heads.length === 1) return `head ${heads[0]}`;
  return heads.length === HEADS ? `all ${HEADS} heads` : `heads ${heads.join(", ")}`;
};
/** Returns the name of a map of these heads: of one head, or of the mean of several. */
const meanNamed = (heads) => (heads.length === 1 ? headsNamed(heads) : `mean of ${headsNamed(heads)}`);

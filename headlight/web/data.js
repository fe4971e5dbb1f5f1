// The data that the page holds, and sums over it. Nothing here touches what is shown.

const byId = (id) => document.getElementById(id);
const data = JSON.parse(byId("data").textContent);
const COUNT = data.labels.length; // tokens
const HEADS = data.heads;
const UNIT = 65535; // the integer that stands for a weight of 1

// uint16, little-endian as every machine with a browser is: layer by layer, head by head, row by row.
const stored = (() => {
  const block = byId("weights");
  const binary = atob(block.textContent);
  block.remove(); // megabytes that nobody reads again
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return new Uint16Array(bytes.buffer);
})();

/** One head as a view, [COUNT * COUNT] integers; `place` counts the layers held. */
function rawHead(place, head) {
  const size = COUNT * COUNT;
  const start = (place * HEADS + head) * size;
  return stored.subarray(start, start + size);
}

/** The mean of some heads of a layer, [COUNT * COUNT] weights from 0 to 1. The last one asked for is kept. */
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

/** The greatest weight among the tokens shown; never 0, so that one can divide by it. */
function greatest(weights, shown) {
  let top = 0;
  for (const query of shown) for (const key of shown) top = Math.max(top, weights[query * COUNT + key]);
  return top || 1;
}

/** The numbers of the tokens that are shown. */
function shownTokens(hideSpecial) {
  const all = data.labels.map((_, at) => at);
  return hideSpecial ? all.filter((at) => !data.special[at]) : all;
}

/** The lines of one head, [{head, query, key, weight}]: for each query its `most` greatest weights (0: all) of `least` or more. */
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

/** A weight as people read it: three decimals, and never a 0.000 that is not 0. */
function shownWeight(weight) {
  if (weight > 0 && weight < 0.0005) return "<0.001";
  return weight.toFixed(3);
}

/** A token with its number, as it is named in sentences. */
const named = (token) => `${token} “${data.labels[token]}”`;
const headsNamed = (heads) => {
  if (heads.length === 1) return `head ${heads[0]}`;
  return heads.length === HEADS ? `all ${HEADS} heads` : `heads ${heads.join(", ")}`;
};
/** The same for what holds their mean where they are several. */
const meanNamed = (heads) => (heads.length === 1 ? headsNamed(heads) : `mean of ${headsNamed(heads)}`);

// What is shown, and sums over it. Nothing here changes the display.

let data = null; // null: nothing yet
let COUNT = 0; // tokens
let HEADS = 0;
let FLOOR = 0; // smaller weights are left out; 0: none is
let edition = 0; // part of every key under which something is kept
let mapSource = null;

/**
 * Replaces what is shown. `source(place, head)` returns the map of one head, sparse: row q has `weights` from 0 to 1 at
 * `keys` in the entries from starts[q] to starts[q + 1]. `place` counts the layers held.
 */
function hold(described, source) {
  [data, mapSource] = [described, source];
  [COUNT, HEADS, FLOOR] = [data.labels.length, data.heads, data.floor];
  edition += 1;
}

const mapOf = (place, head) => mapSource(place, head);

/** The mean of some heads of a layer, a map; what is left out counts as 0. The last one asked for is kept. */
const meanOf = (() => {
  let kept = { key: null, map: null };
  return (place, heads) => {
    const key = `${edition}:${place}:${heads.join()}`;
    if (kept.key !== key) kept = { key, map: heads.length === 1 ? mapOf(place, heads[0]) : mean(heads.map((head) => mapOf(place, head))) };
    return kept.map;
  };
})();

function mean(maps) {
  const map = { starts: new Uint32Array(COUNT + 1), keys: [], weights: [] };
  const row = new Float64Array(COUNT);
  for (let query = 0; query < COUNT; query++) {
    row.fill(0);
    for (const each of maps) {
      for (let at = each.starts[query]; at < each.starts[query + 1]; at++) row[each.keys[at]] += each.weights[at] / maps.length;
    }
    row.forEach((weight, key) => {
      if (!weight) return;
      map.keys.push(key);
      map.weights.push(weight);
    });
    map.starts[query + 1] = map.keys.length;
  }
  return map;
}

/** The weights of one token with each other, [COUNT]: its row as a query, its column as a key. 0 is what is not held. */
function weightsOf(map, { side, token }) {
  const found = new Float64Array(COUNT);
  for (let query = 0; query < COUNT; query++) {
    if (side === "query" && query !== token) continue;
    for (let at = map.starts[query]; at < map.starts[query + 1]; at++) {
      if (side === "query") found[map.keys[at]] = map.weights[at];
      else if (map.keys[at] === token) found[query] = map.weights[at];
    }
  }
  return found;
}

/** The greatest weight among the tokens shown, {query, key, weight}; the first of several. */
function greatest(map, shown) {
  let top = { query: -1, key: -1, weight: 0 };
  const isShown = flags(shown);
  for (const query of shown) {
    for (let at = map.starts[query]; at < map.starts[query + 1]; at++) {
      if (map.weights[at] > top.weight && isShown[map.keys[at]]) top = { query, key: map.keys[at], weight: map.weights[at] };
    }
  }
  return top;
}

/** The share of a head's weight that is left out. */
const leftOut = (map) => Math.max(0, 1 - map.weights.reduce((sum, weight) => sum + weight, 0) / COUNT);

/** The numbers of the tokens that are shown. */
function shownTokens(hideSpecial) {
  const all = data.labels.map((_, at) => at);
  return hideSpecial ? all.filter((at) => !data.special[at]) : all;
}

const flags = (tokens) => {
  const found = new Uint8Array(COUNT);
  for (const token of tokens) found[token] = 1;
  return found;
};

/** The lines of one head, [{head, query, key, weight}]: for each query its `most` greatest weights (0: all) of `least` or more. */
function strongest(place, head, shown, most, least) {
  const map = mapOf(place, head);
  const isShown = flags(shown);
  const lines = [];
  for (const query of shown) {
    const row = [];
    for (let at = map.starts[query]; at < map.starts[query + 1]; at++) {
      const [key, weight] = [map.keys[at], map.weights[at]];
      if (weight >= least && isShown[key]) row.push({ head, query, key, weight });
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

/** A share in percent; never 0 % where there is something. */
const percent = (share) => (share > 0 && share < 0.005 ? "<1 %" : `${Math.round(share * 100)} %`);

/** The same for a weight that may be left out. */
const heldWeight = (weight) => (FLOOR && !weight ? `left out (below ${FLOOR.toFixed(4)})` : shownWeight(weight));

/** A token with its number, as it is named in sentences. */
const named = (token) => `${token} “${data.labels[token]}”`;
const headsNamed = (heads) => {
  if (data.reduced) return data.reduced;
  if (heads.length === 1) return `head ${heads[0]}`;
  return heads.length === HEADS ? `all ${HEADS} heads` : `heads ${heads.join(", ")}`;
};
/** Returns the name of a map of these heads: of one head, or of the mean of several. */
const meanNamed = (heads) => (heads.length === 1 ? headsNamed(heads) : `mean of ${headsNamed(heads)}`);
/** Returns what the model view shows. */
const mapsNamed = () =>
  (data.reduced ? `${data.reduced}, ${data.layers.length === 1 ? "1 map" : `${data.layers.length} layers`}` : `${data.layers.length} × ${HEADS} heads`);
/** Returns the name of a place on the axes of layers and heads, for a title. */
const titled = (place, name) => (data.rollout ? "Rollout of all layers" : `Layer ${data.layers[place]}, ${name}`);

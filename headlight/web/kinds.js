// What a head does in the shown text, with thresholds and words of headlight/analysis/map_titles.py.

const CALLED = 0.5; // least share of the weight
const UNIFORM = 0.9; // least spread
const FEWEST_TOKENS = 8;
const KINDS = ["the token itself", "previous token", "next token", "special tokens"];
const kinds = { edition: -1, said: new Map() };

/** Returns what a whole map attends to, in words; "" if it is of no known kind. */
function kindOf({ starts, keys, weights }) {
  const sums = [0, 0, 0, 0];
  let entropy = 0;
  for (let query = 0; query < COUNT; query++) {
    for (let at = starts[query]; at < starts[query + 1]; at++) {
      const near = [0, -1, 1].indexOf(keys[at] - query);
      if (near >= 0) sums[near] += weights[at];
      if (data.special[keys[at]]) sums[3] += weights[at];
      entropy -= weights[at] * Math.log(weights[at] || 1);
    }
  }
  if (entropy / COUNT / Math.log(COUNT) >= UNIFORM) return "uniform";
  const shares = sums.map((sum, kind) => sum / (kind === 1 || kind === 2 ? COUNT - 1 : COUNT));
  const top = Math.max(...shares);
  return top >= CALLED ? KINDS[shares.indexOf(top)] : "";
}

/** Returns the kind of a single head for a title, with `before` in front of it; "" if it is unknown or weights are missing. */
function kindSaid(place, heads, before = ": ") {
  const missing = FLOOR || (data.topK && data.isPartial());
  if (heads.length > 1 || missing || data.reduced || data.words || COUNT < FEWEST_TOKENS) return "";
  if (kinds.edition !== edition) Object.assign(kinds, { edition, said: new Map() });
  const at = place * HEADS + heads[0];
  if (!kinds.said.has(at)) kinds.said.set(at, kindOf(mapOf(place, heads[0])));
  return kinds.said.get(at) && `${before}${kinds.said.get(at)}, in this text`;
}

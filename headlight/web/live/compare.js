// Comparison of a query with passages: the service's answer, in the form of the view.

const BEST_UNITS = 3; // underlined in each passage, as in the file of `headlight compare --html`
const held = { asked: null };

/** Returns whether the model gives one score of a pair, and so has no vectors of a query. */
const reranks = () => card.description.info.labels?.length === 1 && !card.description.info.token_labels;

/** Returns whether the model is compared by its sparse vectors. */
const sparse = () => card.description.info.task === "sparse";

/** Returns whether span vectors and contributions can be asked for: the model averages token vectors, and has Dense layers known. */
function averages() {
  const { pooling, outputs = [] } = card.description.info;
  return pooling === "mean" && outputs.includes("spans") && outputs.includes("pooled");
}

/** Returns the methods to ask for, the best first; attention is evidence only of a service that has it, and of a vector or a pair. */
function compareMethods(occlusion) {
  const { outputs = [] } = card.description.info;
  if (sparse()) return ["TERMS", ...(occlusion ? ["OCCLUSION"] : [])];
  const first = reranks() ? ["OCCLUSION"] : [...(averages() ? ["SPAN"] : []), ...(occlusion ? ["OCCLUSION"] : []), "LATE_INTERACTION"];
  const attends = outputs.includes("attention") && (reranks() || outputs.includes("pooled"));
  return [...first, ...(attends ? ["ATTENTION"] : [])];
}

function compareRequest({ query, passages, unit, occlusion, longer }) {
  return {
    query: { text: query },
    passages: passages.map((text) => ({ text })),
    ...longer,
    sort: true,
    ...(reranks() || sparse() ? {} : { late_interaction: {} }),
    evidence: compareMethods(occlusion).map((method) => ({ method: `EVIDENCE_METHOD_${method}`, unit })),
  };
}

const typedLines = (id) => byId(id).value.split("\n").map((text) => text.trim()).filter(Boolean);

const askedComparison = () => ({
  query: byId("query").value, passages: typedLines("passages"), unit: byId("evidence-unit").value, occlusion: byId("occlusion").checked, longer: longer(),
});

/** Asks for the comparison, and shows it. */
async function showCompared(asked) {
  if (!asked.query.trim()) throw new ServiceError(0, "There is no query; type one above the passages.");
  if (!asked.passages.length) throw new ServiceError(0, "There are no passages; type one on each line.");
  source.controller.abort();
  source.controller = new AbortController();
  const request = { ...compareRequest(asked), encoding: "base64" };
  const answer = await ask("v1/compare", request, source.controller.signal);
  held.asked = asked;
  byId("comparison").hidden = false;
  showComparison(comparisonOf(answer, asked));
}

const offsetsOf = (tokens) => tokens.starts.map((start, at) => [start, tokens.ends[at]]);

/** Returns shared terms, [spelling or number, product, weight in the query, weight in the passage]. */
function termsOf({ weights, terms: { terms, pieces, query, passage } }) {
  const [products, mine, its] = [weights, query, passage].map(numbersOf);
  return terms.map((term, at) => [pieces[at] ?? `#${term}`, products[at], mine[at], its[at]]);
}

function comparisonOf(answer, { query, passages }) {
  const tokens = answer.query ? offsetsOf(answer.query.tokens) : []; // a pair has those of its query
  const unitsOf = ({ characters, weights }) => ({ units: characters.map(({ start, end }) => [start, end]), weights: numbersOf(weights) });
  return {
    similarity: answer.similarity,
    best: BEST_UNITS,
    query: { text: query, tokens: answer.query_tokens.map((at) => tokens[at]) },
    passages: answer.passages.map(({ index, score, max_sim_mean, item, evidence }) => ({
      name: `line ${index + 1}`,
      text: passages[index],
      score,
      maxSim: max_sim_mean ?? null,
      tokens: offsetsOf(item.tokens),
      evidence: evidence.map((each) => ({
        method: each.method.replace("EVIDENCE_METHOD_", "").toLowerCase(),
        ...(each.terms ? { units: [], weights: [] } : unitsOf(each)),
        terms: each.terms ? termsOf(each) : null,
        matched: each.matched_tokens,
        cosines: each.matched_cosines ? numbersOf(each.matched_cosines) : [],
        query: each.query ? unitsOf(each.query) : null,
        special: each.special ? [...numbersOf(each.special.weights)].map((weight, at) => [item.tokens.pieces[each.special.units.tokens[at]], weight]) : [],
      })),
    })),
  };
}

// Comparison of a query with passages: the methods and options of evidence, and the service's answer in the form of the view.

const BEST_UNITS = 3; // underlined in each passage, as in the file of `headlight compare --html`
const EVIDENCE = JSON.parse(byId("evidence-methods").textContent); // the rows of headlight/evidence_methods.py
const EVIDENCE_OPTIONS = ["distinct", "per_token", "query_units", "max_encodings"]; // fields of EvidenceRequest, and ids of the form

TASKS.compare = {
  title: "Compare",
  send: "Compare",
  does: (info) => ["pooled", "sparse", "multi_vector"].some((output) => gives(info, output)) || reranks(info),
  fields: () => ["query", "passages"],
  options: ["truncation", "evidence-unit", "evidence", ...EVIDENCE_OPTIONS],
  path: "v1/compare",
  method: "Compare",
  tensors: true,
  section: "comparison",
  check: (settings) => withoutQuery(settings) || (!settings.evidence && "There is no evidence to show; choose a method."),
  request: compareRequest,
  python: comparePython,
  show: (answer, settings) => showComparison(comparisonOf(answer, settings)),
  offer: offerEvidence,
  caption: () => `Compare by ${METHODS[comparing.method].name.toLowerCase()}`,
  writeView: () => ({ by: comparing.method, ...(byId("numbers").checked ? { numbers: 1 } : {}) }),
  readView(params) {
    comparing.method = params.get("by");
    byId("numbers").checked = params.get("numbers") === "1";
  },
};

/** Returns the output that a comparison scores. */
function scoredBy(info) {
  if (reranks(info)) return "scores";
  if (sparse(info)) return "sparse";
  return info.multi_vector_dim && !gives(info, "pooled") ? "multi_vector" : "pooled";
}

/** Returns whether a model has a method of evidence. A service refuses contributions of some models that this allows. */
function hasMethod(name, info) {
  const { of_pairs: ofPairs, units, token_rows: rows, rest, instead } = EVIDENCE[name];
  const output = scoredBy(info);
  if (name === "attention" && !gives(info, "attention")) return false;
  if (output === "scores") return ofPairs !== "";
  if (!units || output === "sparse") return output === "sparse" && !instead.sparse && name !== "late_interaction";
  if (instead[output]) return false;
  return !rows || (info.pooling === "mean" && gives(info, "spans") && !(rest && ["euclidean", "manhattan"].includes(info.similarity)));
}

/** Offers the methods of the chosen model. Those that cost an encoding for each unit, and those that may be refused, are left to the reader. */
function offerEvidence() {
  const { info } = card.description;
  if (byId("evidence").dataset.model === card.description.names[0]) return; // what was chosen stays
  byId("evidence").dataset.model = card.description.names[0];
  const names = Object.keys(EVIDENCE).filter((name) => hasMethod(name, info));
  const first = names.filter((name) => !EVIDENCE[name].rest && (!EVIDENCE[name].takes.includes("max_encodings") || scoredBy(info) === "scores"));
  byId("evidence-choices").replaceChildren(...names.map((name) => {
    const [label, input] = [element("label", undefined, "plain"), element("input")];
    Object.assign(input, { type: "checkbox", name: "evidence", value: name, defaultChecked: first.includes(name) });
    label.title = EVIDENCE[name].meaning;
    label.append(input, ` ${EVIDENCE[name].title}`);
    return label;
  }));
  byId("evidence").dataset.standard = first.join();
  offerEvidenceOptions();
}

const evidenceNames = ({ evidence }) => evidence.split(",").filter(Boolean);

/** Returns whether a method takes an option with these units. */
const takes = (name, option, unit) => EVIDENCE[name].takes.includes(option) && (option !== "max_encodings" || unit !== "UNIT_SENTENCE");

/** Offers the options that a chosen method takes. */
function offerEvidenceOptions() {
  const names = evidenceNames({ evidence: valueOf("evidence") });
  for (const option of EVIDENCE_OPTIONS) {
    const of = names.filter((name) => takes(name, option, byId("evidence-unit").value));
    byId(`${option}-option`).hidden = !of.length;
    byId(`${option}-option`).title = `Of ${of.map((name) => EVIDENCE[name].title).join(", ")}.`;
  }
}

/** Returns the options of a method that were chosen, as the request has them. */
const optionsOf = (name, settings) => Object.fromEntries(EVIDENCE_OPTIONS
  .filter((option) => settings[option] && takes(name, option, settings["evidence-unit"]))
  .map((option) => [option, option === "max_encodings" ? Number(settings[option]) : true]));

function compareRequest(settings) {
  return {
    query: { text: settings.query },
    passages: textsOf(settings.passages),
    ...longer(settings),
    sort: true,
    ...(reranks() || sparse() ? {} : { late_interaction: {} }),
    evidence: evidenceNames(settings).map((name) => ({ method: `EVIDENCE_METHOD_${name.toUpperCase()}`, unit: settings["evidence-unit"], ...optionsOf(name, settings) })),
  };
}

function comparePython(settings) {
  const unit = settings["evidence-unit"].replace("UNIT_", "").toLowerCase();
  const spec = (name) => [`method="${name}"`, `unit="${unit}"`, ...Object.entries(optionsOf(name, settings)).map(([option, value]) => `${option}=${value === true ? "True" : value}`)];
  const scoredOnly = reranks() || sparse();
  return {
    imports: ["from headlight import Client", "from headlight.comparison import EvidenceSpec"],
    lines: [
      ...pythonList("passages", textLines(settings.passages)),
      "evidence = [", ...evidenceNames(settings).map((name) => `    EvidenceSpec(${spec(name).join(", ")}),`), "]",
      `comparison = client.compare(${JSON.stringify(settings.query)}, passages${scoredOnly ? "" : ", late_interaction=True"}, evidence=evidence, sort=True${truncated(settings)})`,
      "for each in comparison:", `    print(each.score, ${scoredOnly ? "" : "each.max_sim_mean, "}passages[each.index])`,
    ],
  };
}

const offsetsOf = (tokens) => tokens.starts.map((start, at) => [start, tokens.ends[at]]);

/** Returns shared terms, [spelling or number, product, weight in the query, weight in the passage]. */
function termsOf({ weights, terms: { terms, pieces, query, passage } }) {
  const [products, mine, its] = [weights, query, passage].map(numbersOf);
  return terms.map((term, at) => [pieces[at] ?? `#${term}`, products[at], mine[at], its[at]]);
}

function comparisonOf(answer, settings) {
  const passages = textLines(settings.passages);
  const tokens = answer.query ? offsetsOf(answer.query.tokens) : []; // a pair has those of its query
  const unitsOf = ({ characters, weights }) => ({ units: characters.map(({ start, end }) => [start, end]), weights: numbersOf(weights) });
  return {
    similarity: answer.similarity,
    best: BEST_UNITS,
    options: Object.fromEntries(evidenceNames(settings).map((name) => [name, Object.keys(optionsOf(name, settings))])),
    query: { text: settings.query, tokens: answer.query_tokens.map((at) => tokens[at]) },
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

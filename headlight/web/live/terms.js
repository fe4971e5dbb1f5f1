// Terms: the sparse vector of each text, the largest weights first.

const MOST_LISTED = 12; // terms of a text

TASKS.terms = {
  title: "Terms",
  send: "Show terms",
  heading: "Terms",
  does: (info) => gives(info, "sparse"),
  fields: () => ["texts"],
  options: ["truncation"],
  path: "v1/encode",
  method: "Encode",
  tensors: true,
  check: ({ texts }) => tooManyOrFew(texts, 1, MOST_VECTORS),
  request: (settings) => ({ inputs: textsOf(settings.texts), ...longer(settings), outputs: { sparse: { top_k: Math.min(MOST_LISTED, card.description.info.vocab_size), pieces: true } } }),
  python: (settings) => ({
    imports: ["from headlight import Client"],
    lines: [
      ...pythonList("texts", textLines(settings.texts)),
      `for vector in client.encode_sparse(texts, top_k=${MOST_LISTED}, pieces=True${truncated(settings)}):`,
      "    print(sorted(zip(vector.values, vector.pieces), reverse=True))",
    ],
  }),
  draw(answer, { texts }) {
    const [values, indices] = [answer.sparse, answer.sparse_indices].map(numbersOf);
    const width = values.length / answer.items.length;
    const top = Math.max(1e-9, ...values);
    const parts = textLines(texts).map((text, at) => {
      const pieces = answer.items[at].terms.pieces;
      const entries = [...pieces.keys()].map((place) => ({ name: pieces[place] || `#${indices[at * width + place]}`, weight: values[at * width + place] }));
      entries.sort((a, b) => b.weight - a.weight);
      return weightsPart(at, text, entries.map((entry) => ({ ...entry, share: entry.weight / top })));
    });
    return [...parts, element("p", `The ${MOST_LISTED} largest weights of each text, of terms of the model’s vocabulary; bars reach to ${spaced(top)}.`, "fine")];
  },
};

// Classify: the labels of each text, the likeliest first.

const MOST_LABELS = 10; // of a text that are drawn

TASKS.classify = {
  title: "Classify",
  send: "Classify texts",
  heading: "Labels",
  does: (info) => (info.labels?.length ?? 0) > 1 && !info.token_labels,
  fields: () => ["texts"],
  options: ["truncation"],
  path: "v1/classify",
  method: "Classify",
  check: ({ texts }) => tooManyOrFew(texts, 1, MOST_VECTORS),
  request: (settings) => ({ inputs: textsOf(settings.texts), ...longer(settings), top_n: MOST_LABELS }),
  python: (settings) => ({
    imports: ["from headlight import Client"],
    lines: [
      ...pythonList("texts", textLines(settings.texts)),
      `for text, labels in zip(texts, client.classify(texts${truncated(settings)})):`,
      "    print(text, [(each.label, each.score) for each in labels])",
    ],
  }),
  draw({ results }, { texts }) {
    const { activation, labels } = card.description.info;
    const top = Math.max(1e-9, ...results.flatMap((each) => each.labels.map(({ score }) => Math.abs(score))));
    const parts = textLines(texts).map((text, at) =>
      weightsPart(at, text, results[at].labels.map(({ label, score }) => ({ name: label, weight: score, share: activation === "identity" ? score / top : score }))));
    return [...parts, element("p", `Scores: ${activation} of the logits${labels.length > MOST_LABELS ? `; the ${MOST_LABELS} likeliest of ${labels.length} labels` : ""}.`, "fine")];
  },
};

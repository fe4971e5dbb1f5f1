// Rerank: the score of each passage beside the query, the best first.

TASKS.rerank = {
  title: "Rerank",
  send: "Rank passages",
  heading: "Ranking",
  does: (info) => reranks(info) && (info.accepts ?? []).includes("pair"),
  fields: () => ["query", "passages"],
  options: ["truncation"],
  path: "v1/rank",
  method: "Rerank",
  check: withoutQuery,
  request: (settings) => ({ query: settings.query, documents: textLines(settings.passages), ...longer(settings) }),
  python: (settings) => ({
    imports: ["from headlight import Client"],
    lines: [
      ...pythonList("documents", textLines(settings.passages)),
      `ranked = client.rerank(${JSON.stringify(settings.query)}, documents${truncated(settings)})`,
      "for each in ranked:", "    print(each.score, each.logit, documents[each.index])",
    ],
  }),
  draw({ results }, { passages }) {
    const documents = textLines(passages);
    const { activation } = card.description.info;
    const logits = results.map(({ logit }) => logit);
    const [least, most] = [Math.min(...logits), Math.max(...logits)];
    const table = element("table", undefined, "ranking");
    const rows = results.map(({ index, score, logit }, at) => [at + 1, String(Number(score.toPrecision(3))).replace("-", "−"), spaced(logit), `line ${index + 1}`, pointsOf(documents[index]).join("")]);
    fillTable(table, ["place", "score", "logit", "from", "passage"], rows, ["number", "number", "number bar", "", "document"]);
    [...table.tBodies[0].rows].forEach((row, at) => row.cells[2].style.setProperty("--share", ((logits[at] - least) / (most - least || 1)).toFixed(4)));
    return [tableRegion(table, "Ranking"), element("p", `Passages are in the order of their logits; bars reach from the least to the largest. ${activation === "identity" ? "The score is the logit." : `The score is the ${activation} of the logit.`}`, "fine")];
  },
};

/** Returns a table in a region that scrolls, also by the keyboard. */
function tableRegion(table, name) {
  const region = element("div", undefined, "wide-table");
  region.tabIndex = 0;
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", name);
  region.append(table);
  return region;
}

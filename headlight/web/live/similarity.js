// Similarity of several texts: the cosines of their pooled vectors, as a table.

const MOST_TEXTS = 24; // a larger table is hard to read
const compared = { asked: null, texts: [], cosines: [] };

const similarityRequest = ({ texts, longer }) => ({ inputs: texts.map((text) => ({ text })), ...longer, outputs: { pooled: { normalize: true } } });

/** Asks for the vectors of the texts, and shows their cosines. */
async function showSimilarity(asked) {
  const { texts } = asked;
  if (texts.length < 2 || texts.length > MOST_TEXTS) {
    throw new ServiceError(0, `There ${texts.length === 1 ? "is 1 text" : `are ${texts.length} texts`} here; a comparison takes 2 to ${MOST_TEXTS}, one on each line.`);
  }
  source.controller.abort();
  source.controller = new AbortController();
  const answer = await encode(similarityRequest(asked), source.controller.signal);
  const [tensor] = answer.pooled;
  const [values, width] = [numbersOf(tensor), tensor.shape.map(Number)[1]];
  const vectors = texts.map((_, at) => values.subarray(at * width, (at + 1) * width));
  const dot = (a, b) => a.reduce((sum, value, at) => sum + value * b[at], 0);
  Object.assign(compared, { asked, texts, cosines: vectors.map((a) => vectors.map((b) => dot(a, b))) });
  byId("similarity").hidden = false;
  drawSimilarity();
}

/** Draws the table; its colours reach from the least to the most similar pair. */
function drawSimilarity() {
  const { texts, cosines } = compared;
  if (!texts.length) return;
  const pairs = cosines.flatMap((row, at) => row.filter((_, other) => other !== at));
  const [low, high] = [Math.min(...pairs), Math.max(...pairs)];
  const head = element("tr");
  head.append(element("th", ""), ...texts.map((_, at) => element("th", at + 1)));
  const rows = texts.map((text, at) => {
    const row = element("tr");
    const name = element("th", undefined, "of");
    name.scope = "row";
    name.title = text;
    name.append(`${at + 1} `, element("bdi", visible(text).replaceAll("␣", " ")));
    row.append(name, ...cosines[at].map((cosine, other) => cosineCell(cosine, at === other ? 1 : (cosine - low) / (high - low || 1))));
    return row;
  });
  const [top, body] = [element("thead"), element("tbody")];
  top.append(head);
  body.append(...rows);
  byId("cosines").replaceChildren(top, body);
  byId("cosines-said").textContent = `Colours reach from the least similar pair (${low.toFixed(3)}) to the most similar one (${high.toFixed(3)}).`;
}

function cosineCell(cosine, share) {
  const cell = element("td", cosine.toFixed(3));
  const bits = ramp()[Math.round(Math.max(0, Math.min(1, share)) * 255)];
  const colour = `#${[bits, bits >> 8, bits >> 16].map((part) => (part & 255).toString(16).padStart(2, "0")).join("")}`;
  cell.style.setProperty("--cell", colour);
  cell.style.setProperty("--on-cell", readableOn(colour));
  return cell;
}

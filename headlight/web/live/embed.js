// Embed: the pooled vector of each text, as a strip of its numbers.

const MOST_VECTORS = 64; // strips on a page
const MOST_NUMBERS = 16384; // that are also written

TASKS.embed = {
  title: "Embed",
  send: "Embed texts",
  heading: "Vectors",
  ...POOLED_VECTORS,
  check: ({ texts }) => tooManyOrFew(texts, 1, MOST_VECTORS),
  request: (settings) => ({ inputs: textsOf(settings.texts), ...longer(settings), outputs: { pooled: shortened(settings) } }),
  python: (settings) => ({
    imports: ["from headlight import Client"],
    lines: [
      ...pythonList("texts", textLines(settings.texts)),
      `vectors = client.encode(texts${settings.dimensions ? `, dimensions=${settings.dimensions}` : ""}${truncated(settings)})`,
      "print(vectors.shape, vectors)",
    ],
  }),
  draw(answer, { texts }) {
    const vectors = vectorsOf(answer.pooled[0]);
    const top = Math.max(1e-9, ...vectors.map((vector) => vector.reduce((most, value) => Math.max(most, Math.abs(value)), 0)));
    const parts = textLines(texts).map((text, at) => {
      const part = element("div", undefined, "answer");
      const title = shownText(text, "h3");
      title.prepend(`${at + 1}. `);
      const length = Math.hypot(...vectors[at]);
      part.append(title, stripOf(vectors[at], top), element("p", `${answer.items[at].token_count} tokens, length ${length.toFixed(3)}`, "fine"));
      return part;
    });
    const { length: width } = vectors[0];
    const legend = element("p", `Each vector has ${width} numbers, from left to right; colours reach from ${spaced(-top)} to ${spaced(top)}.`, "fine");
    return [...parts, legend, ...(vectors.length * width <= MOST_NUMBERS ? [numbersPart(vectors)] : [])];
  },
};

/** Returns the rows of a tensor of vectors. */
function vectorsOf(tensor) {
  const [values, [count, width]] = [numbersOf(tensor), tensor.shape.map(Number)];
  return Array.from({ length: count }, (_, at) => values.subarray(at * width, (at + 1) * width));
}

/** Returns a canvas with one column for each number: its sign is the colour, its size the strength. */
function stripOf(vector, top) {
  const canvas = element("canvas", undefined, "strip-of-numbers");
  [canvas.width, canvas.height] = [vector.length, 1];
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${vector.length} numbers, the first ${[...vector.subarray(0, 4)].map(spaced).join(", ")}`);
  const [above, below] = ["above", "below"].map((name) => themed(name).split(" ").map(Number));
  const image = new ImageData(vector.length, 1);
  vector.forEach((value, at) => image.data.set([...(value < 0 ? below : above), Math.round((Math.abs(value) / top) * 255)], at * 4));
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Returns the numbers as JSON, one vector on a line. */
function numbersPart(vectors) {
  const part = element("details", undefined, "left-out");
  const lines = element("pre", vectors.map((vector) => JSON.stringify([...vector].map((value) => Number(value.toPrecision(7))))).join("\n"));
  lines.tabIndex = 0;
  lines.setAttribute("aria-label", "Vectors as JSON, one on each line");
  part.append(element("summary", "Numbers, as JSON"), lines);
  return part;
}

// The tasks of the page: one entry each, in the order of the tabs. A next task is an entry in a file of its own.

/**
 * An entry has:
 *   title, send, heading: words of its tab, of its button and above its answer;
 *   does(info): whether a model can do it;
 *   fields(), options: ids of the fields and the options that it reads; all of them are in the address;
 *   path, method, tensors: of the JSON interface, of gRPC, and whether the answer has tensors;
 *   request(settings), python(settings): the request of what the form has, and its Python, {imports, lines};
 *   check(settings): returns what is missing, as a sentence, or nothing;
 *   draw(answer, settings): returns the elements of #result; or `section`, another element, and show(answer, settings);
 *   run(settings): instead of one call and its view;
 *   offer(): shows what the chosen model has of its options;
 *   caption(), pictured(): title and element of its picture;
 *   writeView(), readView(params): what else the address has of its view.
 * `model` is the one that it was last done with, and `last` the last answer: {settings, answer}.
 */
const TASKS = {};

/** What the tasks of pooled vectors share. */
const POOLED_VECTORS = {
  does: (info) => gives(info, "pooled"),
  fields: () => ["texts"],
  options: ["truncation", "dimensions"],
  path: "v1/encode",
  method: "Encode",
  tensors: true,
};

const textLines = (text) => text.split("\n").map((line) => line.trim()).filter(Boolean);
const textsOf = (texts) => textLines(texts).map((text) => ({ text }));

/** Returns what a request says of texts that are too long: nothing, or `truncation`. */
const longer = ({ truncation }) => (truncation ? { truncation } : {});

/** Returns the options of a request for vectors. */
const shortened = ({ dimensions }) => (dimensions ? { dimensions: Number(dimensions) } : {});

/** Returns Python's argument for texts that are too long. */
const truncated = ({ truncation }) => (truncation ? `, truncate="${truncation.replace("TRUNCATION_CUT_", "").replace("TRUNCATION_", "").toLowerCase()}"` : "");

/** Returns Python's lines of a list of texts. */
const pythonList = (name, texts) => [`${name} = [`, ...texts.map((text) => `    ${JSON.stringify(text)},`), "]"];

/** Returns a sentence if there are not as many lines as a task takes. */
function tooManyOrFew(texts, least, most) {
  const { length } = textLines(texts);
  if (length >= least && length <= most) return "";
  return `There ${length === 1 ? "is 1 text" : `are ${length} texts`} here; give ${least} to ${most}, one on each line.`;
}

const withoutQuery = ({ query, passages }) =>
  (!query.trim() && "There is no query; type one above the passages.") || (!textLines(passages).length && "There are no passages; type one on each line.");

/** Returns a text in an element that keeps its direction. */
function shownText(text, name = "p", className = undefined) {
  const shown = element(name, undefined, className);
  shown.append(element("bdi", pointsOf(text).join("")));
  return shown;
}

/** Returns a heading with a text, and a list of names with weights below it, each with a bar of its share. */
function weightsPart(at, text, entries, note = "") {
  const part = element("div", undefined, "answer");
  const title = shownText(text, "h3");
  title.prepend(`${at + 1}. `);
  const list = element("ol", undefined, "weights");
  for (const { name, weight, share } of entries) {
    const item = element("li");
    item.style.setProperty("--share", Math.max(0, Math.min(1, share)).toFixed(4));
    item.append(element("bdi", visible(name), "label"), element("span", spaced(weight), "weight"));
    list.append(item);
  }
  part.append(title, list, ...(note ? [element("p", note, "fine")] : []));
  return part;
}

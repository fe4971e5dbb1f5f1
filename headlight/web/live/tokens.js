// Tokens and words of the text: their labels for the views, and a table with offsets.

const LONGEST_LABEL = 200; // characters, as in the file of `headlight attend --html`
const STAND_INS = { "\n": "↵", "\t": "⇥", " ": "␣" };
const JOINERS = "\u200c\u200d"; // of Persian words and emoji

/** Returns a label on one line: white space shown, control characters replaced, shortened. */
function visible(label) {
  let chars = Array.from(label);
  if (chars.length > LONGEST_LABEL) chars = [...chars.slice(0, LONGEST_LABEL - 1), "…"];
  return chars.map((char) => STAND_INS[char] ?? (/[\p{C}\p{Z}]/u.test(char) && !JOINERS.includes(char) ? "�" : char)).join("");
}

/** Returns the characters of each token in its text, else its piece or id. Offsets count code points. */
function labelsOf(tokens, input) {
  const texts = (input.pair ? [input.pair.first, input.pair.second] : [input.text]).map((text) => Array.from(text));
  return tokens.ids.map((id, at) => {
    const text = tokens.special[at] ? [] : texts[tokens.segments[at] ?? 0] ?? texts[0];
    return text.slice(tokens.starts[at], tokens.ends[at]).join("") || tokens.pieces[at] || `#${id}`;
  });
}

/** Returns the input of what the form has: a text, or a pair of texts. */
const inputOf = ({ text, second, pair }) => (pair ? { pair: { first: text, second } } : { text });

/** Returns what the views need of rows and columns: tokens, or the words into which the answer groups them. */
function shownUnits(answer, settings) {
  const { tokens } = answer.items[0];
  const labels = labelsOf(tokens, inputOf(settings));
  const groups = groupsOf(answer.attention_map.places?.[0]?.queries, labels.length);
  const joined = (values, by) => groups.map((group) => group.map((at) => values[at]).join(by));
  return {
    labels: joined(labels, "").map(visible),
    pieces: joined(tokens.pieces, " ").map(visible),
    ids: joined(tokens.ids, " "),
    special: groups.map((group) => Number(group.every((at) => tokens.special[at]))),
    segments: groups.map(([at]) => tokens.segments[at] ?? 0),
  };
}

/** Returns the tokens of each unit; without units, each token alone. */
function groupsOf(units, count) {
  if (!units?.tokens?.length) return Array.from({ length: count }, (_, at) => [at]);
  const starts = units.starts?.length ? units.starts : units.tokens.map((_, at) => at);
  return starts.map((start, at) => units.tokens.slice(start, starts[at + 1] ?? units.tokens.length));
}

/** Shows the tokens of the text with their offsets. */
function showTokens(item, input) {
  const { tokens } = item;
  const labels = labelsOf(tokens, input).map(visible);
  const kind = (at) => [tokens.special[at] && "special", tokens.prompt?.[at] && "prompt", input.pair && !tokens.special[at] && `text ${tokens.segments[at] + 1}`].filter(Boolean).join(", ");
  const offsets = (at) => (tokens.ends[at] > tokens.starts[at] ? `${tokens.starts[at]}–${tokens.ends[at]}` : "");
  const rows = tokens.ids.map((id, at) => [at, labels[at], visible(tokens.pieces[at] ?? ""), id, offsets(at), kind(at)]);
  fillTable(byId("token-table"), ["#", "token", "piece", "id", "characters", "kind"], rows, ["number", "mono", "mono", "number", "number", ""]);
  byId("tokens-count").textContent = `${item.token_count}`;
  const cut = item.truncated ? ` ${item.original_token_count - item.token_count} of ${item.original_token_count} tokens were cut off: the model takes no more.` : "";
  byId("tokens-said").textContent = `Offsets count code points, the first 0, the last excluded.${cut}`;
}

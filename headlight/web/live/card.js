// The model's card: what it is, its limits, and its measured distance from PyTorch.

const MOST_BYTES = 2 ** 24; // of one answer: a tab takes so many without a noticeable pause
/** Returns how many bytes of numbers one answer may have; base64 makes them a third larger. */
const answerLimit = () => Math.min(MOST_BYTES, (Number(card.description?.limits?.max_stream_output_bytes) || 2 ** 22) * 0.74);
const grouped = (number) => Number(number).toLocaleString("en");
const POSITIONS = { rope: "rotary (RoPE)", alibi: "ALiBi" };

/** Shows the card of the chosen model. */
function drawCard() {
  const { model, info, limits, parity } = card.description;
  byId("model-line").textContent = `${model.name}, version ${model.version}, on ${model.provider} in ${model.precision}`;
  document.title = `${model.name} · Headlight`;
  const rows = [
    ["name", model.name], ["version", model.version], ["runs on", `${model.provider}, ${model.precision}`],
    ["layers", info.layers], ["heads", `${info.heads} in each layer`], ["width", info.dim],
    ["positions", POSITIONS[info.positions] ?? info.positions], ["pooling", `${info.pooling}${info.normalized ? ", unit length" : ""}`],
    ["vector", `${info.pooled_dim} numbers`], ["longest text", `${grouped(info.max_length)} tokens`],
    ["trained to", `${grouped(info.trained_length)} tokens`], ["vocabulary", grouped(info.vocab_size)],
    ["accepts", (info.accepts ?? []).join(", ")], ["in a request", `${grouped(limits.max_items)} texts`],
    ["bundle", model.bundle_sha256, "wide"],
  ];
  byId("card").replaceChildren(...rows.map(([name, text, kind]) => {
    const line = element("div", undefined, kind);
    line.append(element("dt", name), element("dd", text, kind && "hash"));
    return line;
  }));
  showParity(parity ?? [], model);
  byId("card-part").hidden = false;
}

const power = (number) => Number(number).toExponential(1);

function showParity(parity, { provider, precision }) {
  const inUse = (row) => row.provider === provider && row.precision === precision;
  const rows = [...parity].sort((a, b) => inUse(b) - inUse(a));
  const texts = rows.map((row) => [row.output, row.provider, row.precision, power(row.max_error), power(row.tolerance), inUse(row) ? "in use" : ""]);
  fillTable(byId("parity"), ["output", "provider", "precision", "largest", "tolerance", ""], texts, ["", "", "", "number", "number", ""]);
  [...byId("parity").tBodies[0].rows].forEach((line, at) => line.classList.toggle("in-use", inUse(rows[at])));
  const attention = rows.find((row) => inUse(row) && row.output === "attention") ?? rows.find(inUse);
  byId("card-proof").textContent = attention ? `${attention.output} within ${power(attention.max_error)} of PyTorch` : "not measured on this provider and precision";
}

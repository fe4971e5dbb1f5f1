// The last request as a user would send it without this page: curl, Python, grpcurl. The token is never among it.

const lastRequest = { kind: null, method: "", request: null, python: "" };
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const grpcAddress = () => `${location.hostname}:${document.body.dataset.grpcPort}`;
const secure = () => location.protocol === "https:";

const LANGUAGES = {
  curl: ({ method, request }) => [
    `curl ${new URL(`v1/${method.toLowerCase()}`, location.href.split("#")[0])} \\`,
    ...(bearer ? ['  -H "Authorization: Bearer $HEADLIGHT_TOKEN" \\'] : []),
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellQuoted(JSON.stringify(request))}`,
  ].join("\n"),
  python: ({ python }) => {
    const options = [JSON.stringify(grpcAddress()), ...(secure() ? ["tls=True"] : []), ...(bearer ? ['token=os.environ["HEADLIGHT_TOKEN"]'] : [])];
    return [...(bearer ? ["import os", ""] : []), ...python.imports, "", `with Client(${options.join(", ")}) as client:`, ...python.lines.map((line) => `    ${line}`)].join("\n");
  },
  grpcurl: ({ method, request }) => [
    `grpcurl ${secure() ? "" : "-plaintext "}\\`,
    ...(bearer ? ['  -H "authorization: Bearer $HEADLIGHT_TOKEN" \\'] : []),
    `  -d ${shellQuoted(JSON.stringify(request))} \\`,
    `  ${grpcAddress()} headlight.v1.HeadlightService/${method}`,
  ].join("\n"),
};

/** Returns Python's argument for texts that are too long. */
const truncated = ({ truncation }) => (truncation ? `, truncate="${truncation.replace("TRUNCATION_CUT_", "").replace("TRUNCATION_", "").toLowerCase()}"` : "");

/** Returns the Python of an attention request: `attend` for each head, `attention` with a spec for other forms. */
function attentionPython({ input, form, unit, longer }) {
  const text = input.pair ? `(${JSON.stringify(input.pair.first)}, ${JSON.stringify(input.pair.second)})` : JSON.stringify(input.text);
  if (form === "heads" && unit === "token") {
    return {
      imports: ["from headlight import Client"],
      lines: [`attention = client.attend(${text}${truncated(longer)})`, "print(attention.tokens.labels(attention.text))", `print(attention.head(${data.layers[state.layer]}, ${state.heads[0]}))  # rows are queries`],
    };
  }
  const reduce = { mean: 'reduce="head_mean"', max: 'reduce="head_max"', rollout: 'reduce="rollout"' }[form];
  const options = [reduce, unit === "word" && 'unit="word"'].filter(Boolean).join(", ");
  return {
    imports: ["from headlight import AttentionSpec, Client"],
    lines: [`spec = AttentionSpec.of(${options})`, `(maps,) = client.attention([${text}], spec${truncated(longer)})`, "print(maps.axes, maps.values)"],
  };
}

function comparePython({ query, passages, unit, occlusion, longer }) {
  const methods = compareRequest({ query, passages, unit, occlusion }).evidence.map(({ method }) => method.replace("EVIDENCE_METHOD_", "").toLowerCase());
  const word = unit.replace("UNIT_", "").toLowerCase();
  return {
    imports: ["from headlight import Client", "from headlight.comparison import EvidenceSpec"],
    lines: [
      "passages = [", ...passages.map((text) => `    ${JSON.stringify(text)},`), "]",
      `evidence = [EvidenceSpec(method=name, unit="${word}") for name in ${JSON.stringify(methods)}]`,
      `found = client.compare(${JSON.stringify(query)}, passages${reranks() || sparse() ? "" : ", late_interaction=True"}, evidence=evidence, sort=True${truncated(longer)})`,
      "for each in found:", `    print(each.score, ${reranks() || sparse() ? "" : "each.max_sim_mean, "}passages[each.index])`,
    ],
  };
}

function similarityPython({ texts, longer }) {
  return {
    imports: ["from headlight import Client"],
    lines: ["texts = [", ...texts.map((text) => `    ${JSON.stringify(text)},`), "]", `vectors = client.encode(texts, normalize=True${truncated(longer)})`, "print(vectors @ vectors.T)"],
  };
}

/** Shows a request in the chosen language. */
function drawRequest() {
  if (!lastRequest.request) return;
  const language = document.querySelector("input[name=language]:checked").value;
  byId("request").textContent = LANGUAGES[language](lastRequest);
  byId("request-part").hidden = false;
  byId("copied").textContent = "";
}

/** Copies it; a page without TLS has no clipboard on other hosts, and selects it instead. */
async function copyRequest() {
  try {
    await navigator.clipboard.writeText(byId("request").textContent);
    byId("copied").textContent = "Copied.";
  } catch {
    getSelection().selectAllChildren(byId("request"));
    byId("copied").textContent = "Selected: press Ctrl+C.";
  }
}

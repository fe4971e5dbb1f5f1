// The form: what is typed, and what happens when it is sent.

const task = () => document.querySelector("input[name=task]:checked").value;

const TASKS = {
  attention: { fields: "one", send: "Show attention", required: ["text"], asked: () => source.asked },
  compare: { fields: "against", send: "Compare", required: ["query", "passages"], asked: () => held.asked },
  similarity: { fields: "many", send: "Compare texts", required: [], asked: () => compared.asked },
};

/** Shows the fields and results of a task. */
function choosePart(name) {
  document.querySelector(`input[name=task][value=${name}]`).checked = true;
  for (const [each, { fields, required }] of Object.entries(TASKS)) {
    byId(fields).hidden = each !== name;
    for (const id of required) byId(id).required = each === name;
  }
  const isOne = name === "attention";
  for (const label of document.querySelectorAll(".for-one")) label.classList.toggle("away", !isOne);
  for (const label of document.querySelectorAll(".for-compare")) label.classList.toggle("away", name !== "compare");
  byId("send").textContent = TASKS[name].send;
  byId("views").hidden = !isOne || !data;
  byId("tokens-part").hidden = !isOne || !data;
  byId("comparison").hidden = name !== "compare" || !held.asked;
  byId("similarity").hidden = name !== "similarity" || !compared.texts.length;
  clearProblem();
  if (isOne) draw();
  const last = TASKS[name].asked();
  if (last) noteRequest(name, last);
  else byId("request-part").hidden = true;
}

const WRITTEN = {
  attention: (asked) => ({ method: "Encode", request: attentionRequest(asked, {}), python: attentionPython(asked) }),
  compare: (asked) => ({ method: "Compare", request: compareRequest(asked), python: comparePython(asked) }),
  similarity: (asked) => ({ method: "Encode", request: similarityRequest(asked), python: similarityPython(asked) }),
};

/** Keeps the request that a user would send, for copying. */
function noteRequest(kind, asked) {
  Object.assign(lastRequest, { kind, ...WRITTEN[kind](asked) });
  drawRequest();
}

const askedAttention = () => ({
  input: byId("pair").checked ? { pair: { first: byId("text").value, second: byId("second").value } } : { text: byId("text").value },
  form: byId("form").value,
  unit: byId("unit").value,
  longer: longer(),
});

/** Returns what a request says of texts that are too long: nothing, or `truncation`. */
const longer = () => (byId("truncation").value ? { truncation: byId("truncation").value } : {});

let sent = 0; // number of the last request: an earlier one says nothing more

/** Sends what is typed, and shows the answer or the error. */
async function send() {
  const number = ++sent;
  const kind = task();
  clearProblem();
  byId("progress").textContent = "Asking the service …";
  try {
    if (!card.description) await showCard();
    if (kind === "attention") await sendAttention();
    else {
      const asked = kind === "compare" ? askedComparison() : { texts: typedLines("texts"), longer: longer() };
      await (kind === "compare" ? showCompared : showSimilarity)(asked);
      noteRequest(kind, asked);
    }
  } catch (error) {
    if (number === sent) showProblem(error);
  }
  if (number === sent) byId("progress").textContent = "";
}

async function sendAttention() {
  const asked = askedAttention();
  if (state.focus) choose({ focus: null });
  await showAttention(asked);
  noteRequest("attention", asked);
}

/** After a token was entered: the card, and what was typed. */
function startAgain() {
  const typed = byId({ attention: "text", compare: "query", similarity: "texts" }[task()]).value;
  if (typed) send();
  else {
    clearProblem();
    showCard().then(() => task() === "attention" && send(), showProblem);
  }
}

function buildForm() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("ask").addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    byId("ask").requestSubmit();
  });
  byId("tasks").addEventListener("change", (event) => choosePart(event.target.value));
  byId("pair").addEventListener("change", () => (byId("second-field").hidden = !byId("pair").checked));
  for (const id of ["evidence-unit", "occlusion"]) byId(id).addEventListener("change", () => held.asked && byId("ask").requestSubmit());
  byId("truncation").addEventListener("change", () => TASKS[task()].asked() && byId("ask").requestSubmit());
  for (const id of ["form", "unit"]) byId(id).addEventListener("change", () => data && byId("ask").requestSubmit());
  byId("languages").addEventListener("change", drawRequest);
  byId("copy").addEventListener("click", copyRequest);
  byId("layers").addEventListener("change", () => (chosen.layer = data.layers[state.layer]));
  byId("heads").addEventListener("change", () => (chosen.heads = state.heads));
  byId("theme").addEventListener("click", drawSimilarity);
  darkScreen.addEventListener("change", drawSimilarity);
}

buildControls();
buildComparison();
buildToken();
buildForm();
showTheme(state.theme);
showCard().then(() => task() === "attention" && send(), showProblem);

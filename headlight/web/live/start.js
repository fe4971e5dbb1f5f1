// The form: what is typed, and what happens when it is sent.

const task = () => document.querySelector("input[name=task]:checked").value;

/** Shows the fields and results of attention, or of similarity. */
function choosePart(name) {
  document.querySelector(`input[name=task][value=${name}]`).checked = true;
  const isOne = name === "attention";
  byId("one").hidden = !isOne;
  byId("many").hidden = isOne;
  for (const label of document.querySelectorAll(".for-one")) label.classList.toggle("away", !isOne);
  byId("text").required = isOne;
  byId("send").textContent = isOne ? "Show attention" : "Compare texts";
  byId("views").hidden = !isOne || !data;
  byId("tokens-part").hidden = !isOne || !data;
  byId("similarity").hidden = isOne || !compared.texts.length;
  clearProblem();
  if (isOne) draw();
  const last = isOne ? source.asked : compared.texts.length && compared.texts;
  if (last) noteRequest(name, last);
  else byId("request-part").hidden = true;
}

/** Keeps the request that a user would send, for copying. */
function noteRequest(kind, asked) {
  const attention = kind === "attention";
  Object.assign(lastRequest, {
    kind,
    request: attention ? attentionRequest(asked, {}) : similarityRequest(asked),
    python: attention ? attentionPython(asked) : similarityPython(asked),
  });
  drawRequest();
}

const askedAttention = () => ({
  input: byId("pair").checked ? { pair: { first: byId("text").value, second: byId("second").value } } : { text: byId("text").value },
  form: byId("form").value,
  unit: byId("unit").value,
});

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
      const texts = byId("texts").value.split("\n").map((text) => text.trim()).filter(Boolean);
      await showSimilarity(texts);
      noteRequest(kind, texts);
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
  const typed = task() === "attention" ? byId("text").value : byId("texts").value;
  if (typed) send();
  else {
    clearProblem();
    showCard().catch(showProblem);
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
  for (const id of ["form", "unit"]) byId(id).addEventListener("change", () => data && byId("ask").requestSubmit());
  byId("languages").addEventListener("change", drawRequest);
  byId("copy").addEventListener("click", copyRequest);
  byId("layers").addEventListener("change", () => (chosen.layer = data.layers[state.layer]));
  byId("heads").addEventListener("change", () => (chosen.heads = state.heads));
  byId("theme").addEventListener("click", drawSimilarity);
  darkScreen.addEventListener("change", drawSimilarity);
}

buildControls();
buildToken();
buildForm();
drawTheme();
showCard().catch(showProblem);

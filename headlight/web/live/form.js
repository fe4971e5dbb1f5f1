// The form: its fields and options, which a task reads and the address has, and one run of it.

const FIELDS = ["text", "second", "query", "passages", "texts"];

const task = () => document.querySelector("input[name=task]:checked")?.value;
const entryOf = () => TASKS[task()];

/** Returns the value of a field or an option: text, boolean, or the chosen ones of several, joined by commas. */
function valueOf(id) {
  const control = byId(id);
  if (control.tagName === "FIELDSET") return [...control.querySelectorAll("input:checked")].map(({ value }) => value).join();
  return control.type === "checkbox" ? control.checked : control.value;
}

/** Returns the value that the page opens with. */
function standardOf(id) {
  const control = byId(id);
  if (control.tagName === "FIELDSET") return control.dataset.standard;
  if (control.type === "checkbox") return control.defaultChecked;
  return control.tagName === "SELECT" ? control.options[0].value : control.defaultValue;
}

/** Sets a field or an option to what an address says; what the page does not offer is left out. */
function setValue(id, text) {
  const control = byId(id);
  if (control.tagName === "FIELDSET") {
    const values = text.split(",");
    for (const input of control.querySelectorAll("input")) input.checked = values.includes(input.value);
  } else if (control.type === "checkbox") control.checked = text === "1";
  else if (control.tagName !== "SELECT") control.value = text;
  else control.value = oneOf([...control.options].map(({ value }) => value), text, control.value);
}

/** Returns what the form has for a task, by the ids of its fields and options. */
const settingsOf = (entry) => Object.fromEntries([...FIELDS, ...entry.options].map((id) => [id, valueOf(id)]));

/** Builds the tabs of the tasks that a served model does. */
function offerTasks() {
  const offered = Object.entries(TASKS).filter(([, { does }]) => served.some(({ info }) => does(info)));
  const current = task();
  byId("task-choices").replaceChildren(...offered.map(([name, { title }]) => {
    const [label, input] = [element("label"), element("input")];
    Object.assign(input, { type: "radio", name: "task", value: name, checked: name === current });
    label.append(input, element("span", title));
    return label;
  }));
  byId("ask").hidden = !offered.length;
  return offered.map(([name]) => name);
}

/** Shows the fields, options and results of a task, with a model that does it. */
function chooseTask(name) {
  document.querySelector(`input[name=task][value=${name}]`).checked = true;
  const entry = TASKS[name];
  chooseModel(entry.model ?? [card.description ?? served[0], ...served].find(({ info }) => entry.does(info)), entry);
  listModels(entry);
  entry.offer?.();
  showFields();
  for (const part of document.querySelectorAll("[data-option]")) part.classList.toggle("away", !entry.options.includes(part.dataset.option));
  byId("send").textContent = entry.send;
  clearProblem();
  showAnswer();
}

function showFields() {
  const fields = entryOf().fields();
  for (const id of FIELDS) {
    byId(`${id}-field`).hidden = !fields.includes(id);
    byId(id).required = fields.includes(id) && id !== "second"; // a second text may be empty
  }
}

/** Shows the last answer to the task, or nothing; `isDrawn`: its section has it already. */
function showAnswer(isDrawn = false) {
  const entry = entryOf();
  const section = entry.section ?? "result";
  for (const id of ["views", "comparison", "result"]) byId(id).hidden = id !== section || !entry.last;
  byId("request-part").hidden = byId("picture").hidden = !entry.last;
  byId("picture-said").textContent = "";
  if (!entry.last) return;
  if (entry.section && !isDrawn) entry.show(entry.last.answer, entry.last.settings);
  if (!entry.section) {
    byId("result-title").textContent = entry.heading;
    byId("result-parts").replaceChildren(...entry.draw(entry.last.answer, entry.last.settings));
  }
  noteRequest(entry, entry.last.settings);
}

let runs = 0; // number of the last run: an earlier one shows nothing more

/** Sends what the form has, and shows the answer or the error. */
async function send() {
  const number = ++runs;
  clearProblem();
  byId("progress").textContent = "Asking the service …";
  try {
    if (!card.description) await openPage();
    source.controller.abort();
    source.controller = new AbortController();
    const { signal } = source.controller;
    const entry = entryOf();
    const settings = settingsOf(entry);
    const missing = entry.check?.(settings);
    if (missing) throw new ServiceError(0, missing);
    const answer = entry.run ? await entry.run(settings) : await ask(entry.path, { ...modelField(), ...entry.request(settings), ...(entry.tensors ? { encoding: "base64" } : {}) }, signal);
    if (number !== runs) return;
    entry.last = { settings, answer };
    showAnswer(Boolean(entry.run) && entry === entryOf());
    writeAddress();
  } catch (error) {
    if (number === runs) showProblem(error);
  } finally {
    if (number === runs) byId("progress").textContent = "";
  }
}

/** Sends the form again if its answer is shown: an option has changed. */
const sendAgain = () => entryOf()?.last && byId("ask").requestSubmit();

function buildForm() {
  byId("ask").addEventListener("submit", (event) => {
    event.preventDefault();
    send();
  });
  byId("tasks").addEventListener("change", (event) => {
    chooseTask(event.target.value);
    writeAddress();
  });
  byId("model").addEventListener("change", (event) => {
    const { last } = entryOf();
    chooseModel(modelNamed(event.target.value), entryOf());
    entryOf().offer?.();
    showAnswer();
    if (last) byId("ask").requestSubmit();
  });
  byId("pair").addEventListener("change", showFields);
  byId("options").addEventListener("change", (event) => {
    if (event.target.closest("#evidence, #evidence-unit")) offerEvidenceOptions();
    if (event.target.closest("[data-option]") && event.target.id !== "pair") sendAgain();
  });
  byId("languages").addEventListener("change", drawRequest);
  byId("copy").addEventListener("click", copyRequest);
  byId("layers").addEventListener("change", () => (chosen.layer = data.layers[state.layer]));
  byId("heads").addEventListener("change", () => (chosen.heads = state.heads));
}

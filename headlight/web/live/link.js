// The address: what stands behind its # is a task, its model, its options and texts, and its view, so that a link shows the
// sender's view. Whoever made it, it is data: it sets fields of the form and nothing else, and is run once, as by the button.

const LONGEST_LINK = 20000; // characters, of which a text may have nine for one of its own; a longer one is not read
const LONGEST_TEXTS = 2000; // characters of all texts together that the address has

/** Returns the parts of an address, of which every value is a text of the sender's. */
const linkParts = () => new URLSearchParams(location.hash.length <= LONGEST_LINK ? location.hash.slice(1) : "");

/** Returns what the address has: of the last answer to the task. */
formAddress = () => {
  const entry = entryOf();
  const parts = { task: task(), ...modelField() };
  let isTooLong = false;
  if (entry.last) {
    const { settings } = entry.last;
    for (const id of entry.options) if (settings[id] !== standardOf(id)) parts[id] = settings[id] === true ? 1 : settings[id] || 0;
    const texts = entry.fields().filter((id) => settings[id] !== byId(id).defaultValue);
    isTooLong = texts.reduce((sum, id) => sum + settings[id].length, 0) > LONGEST_TEXTS;
    if (!isTooLong) for (const id of texts) parts[id] = settings[id];
    Object.assign(parts, entry.writeView?.());
  }
  byId("too-long").hidden = !isTooLong;
  return { ...parts, ...themeAddress() };
};

/** Sets the form to an address; returns whether there is something to run. */
function readLink() {
  const parts = linkParts();
  state.theme = oneOf(THEMES, parts.get("theme"), state.theme);
  showTheme(state.theme);
  const names = offerTasks();
  if (!names.length) throw new ServiceError(0, "No model here takes texts for a task of this page.");
  const model = modelNamed(parts.get("model"));
  const able = names.find((name) => TASKS[name].does((model ?? served[0]).info));
  const name = oneOf(names, parts.get("task"), able ?? names[0]);
  const entry = TASKS[name];
  if (model && entry.does(model.info)) chooseModel(model, entry);
  chooseTask(name);
  for (const id of [...entry.options, ...FIELDS]) {
    const value = parts.get(id);
    if (id === "pair" && byId("pair-option").hidden) continue;
    if (value !== null && (!FIELDS.includes(id) || value.length <= LONGEST_TEXTS)) setValue(id, value);
  }
  if (entry === TASKS.compare) offerEvidenceOptions();
  showFields();
  entry.readView?.(parts);
  if (parts.get("model") && !model) {
    showProblem(new ServiceError(0, `This link is for the model ${parts.get("model").slice(0, 80)}, which is not served here. Choose another one, and send the form.`));
    return false;
  }
  return entry.fields().every((id) => byId(id).value || id === "second");
}

/** Follows an address that was changed while the page is open. */
followAddress = () => {
  if (!card.description) return;
  byId("ask").reset();
  if (readLink()) byId("ask").requestSubmit();
};

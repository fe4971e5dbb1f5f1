// The models that the service has, the chosen one, and what it can give.

const MOST_NAMES = 64; // of models that are looked up
const card = { description: null };
const served = []; // descriptions, the service's default first

/** Asks for all models; a model with several names comes once. */
async function loadModels() {
  const listed = [await ask("v1/model")];
  const known = new Set(listed[0].names);
  const { data: names } = await ask("v1/models");
  for (const { id } of names.slice(0, MOST_NAMES)) {
    if (known.has(id)) continue;
    const description = await ask(`v1/model?model=${encodeURIComponent(id)}`);
    for (const name of description.names) known.add(name);
    listed.push(description);
  }
  served.splice(0, served.length, ...listed);
}

/** Returns the member of a request that names the model: none if there is one model. */
const modelField = () => (served.length > 1 ? { model: card.description.names[0] } : {});

const gives = (info, output) => (info.outputs ?? []).includes(output);

/** Returns whether the model gives one score of a pair, and so has no vectors of a query. */
const reranks = (info = card.description.info) => info.labels?.length === 1 && !info.token_labels;

/** Returns whether the model is compared by its sparse vectors. */
const sparse = (info = card.description.info) => info.task === "sparse";

/** Chooses the model of a task: what another one answered to it is gone. Each task keeps its model. */
function chooseModel(description, entry) {
  if (description !== entry.model) {
    source.controller.abort();
    Object.assign(entry, { model: description, last: null });
    if (entry === TASKS.attention) data = null;
  }
  if (description === card.description) return;
  card.description = description;
  drawCard();
  byId("pair-option").hidden = !(description.info.accepts ?? []).includes("pair");
  if (byId("pair-option").hidden) byId("pair").checked = false;
  const chosen = byId("dimensions").value;
  const sizes = description.info.trained_dimensions ?? [];
  byId("dimensions").replaceChildren(...["", ...sizes].map((size) => Object.assign(element("option", size || "all"), { value: size })));
  byId("dimensions").value = oneOf(sizes.map(String), chosen, "");
  byId("dimensions-option").hidden = !sizes.length;
}

/** Offers the models that do a task; a service with one model has no choice. */
function listModels(entry) {
  const able = served.filter(({ info }) => entry.does(info));
  byId("model").replaceChildren(...able.map(({ names }) => Object.assign(element("option", names[0]), { value: names[0] })));
  byId("model").value = card.description.names[0];
  byId("model-label").hidden = served.length < 2;
}

const modelNamed = (name) => served.find(({ names }) => names.includes(name));

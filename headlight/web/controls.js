// The controls, and what draws everything.

function chip(kind, name, value, text, colour) {
  const label = document.createElement("label");
  const input = document.createElement("input");
  Object.assign(input, { type: kind, name, value });
  const face = element("span", text);
  label.append(input, face);
  label.classList.toggle("coloured", Boolean(colour));
  input.setAttribute("aria-label", `${name} ${text}`);
  return label;
}

/** Attaches the controls; once for a page. */
function buildControls() {
  byId("layers").addEventListener("change", (event) => choose({ layer: data.layers.indexOf(Number(event.target.value)) }));
  byId("heads").addEventListener("change", () => {
    const heads = [...byId("heads").querySelectorAll("input:checked")].map((input) => Number(input.value));
    choose({ heads: heads.length ? heads : state.heads });
  });
  byId("several").addEventListener("change", (event) => {
    choose({ several: event.target.checked, heads: event.target.checked ? state.heads : state.heads.slice(0, 1) });
  });
  byId("all-heads").addEventListener("click", () => choose({ several: true, heads: Array.from({ length: HEADS }, (_, at) => at) }));
  byId("view").addEventListener("change", (event) => choose({ view: event.target.value, hover: null, at: null }));
  byId("most").addEventListener("change", (event) => choose({ most: Number(event.target.value) }));
  // The square gives small weights, of which there are many, the larger part of the slider.
  byId("least").addEventListener("input", (event) => choose({ least: Math.max(FLOOR, Math.round((event.target.value / 100) ** 2 * 1e4) / 1e4) }));
  byId("cell").addEventListener("input", (event) => choose({ cell: Number(event.target.value) }));
  byId("one-scale").addEventListener("change", (event) => choose({ oneScale: event.target.checked }));
  byId("hide-special").addEventListener("change", (event) => choose({ hideSpecial: event.target.checked }));
  byId("theme").addEventListener("click", () => choose({ theme: THEMES[(THEMES.indexOf(state.theme) + 1) % THEMES.length] }));
}

/** Offers the layers and heads of what is held. */
function listChoices() {
  byId("layers").replaceChildren(...data.layers.map((layer) => chip("radio", "layer", layer, layer)));
  byId("heads").replaceChildren(...Array.from({ length: HEADS }, (_, head) => chip("radio", "head", head, head, true)));
  byId("hide-special").disabled = !data.special.some(Boolean) || data.special.every(Boolean);
}

/** Updates every control to the state. */
function drawControls() {
  document.body.dataset.view = state.view;
  for (const input of document.querySelectorAll("input[name=view]")) input.checked = input.value === state.view;
  for (const input of document.querySelectorAll("input[name=layer]")) input.checked = Number(input.value) === data.layers[state.layer];
  for (const input of document.querySelectorAll("input[name=head]")) {
    input.type = state.several ? "checkbox" : "radio";
    input.checked = state.heads.includes(Number(input.value));
    const colour = lineColour(Number(input.value));
    input.parentElement.style.setProperty("--colour", colour);
    input.parentElement.style.setProperty("--on-colour", readableOn(colour));
  }
  byId("several").checked = state.several;
  byId("several").disabled = byId("all-heads").disabled = HEADS === 1;
  byId("most").value = state.most;
  byId("least").value = Math.round(Math.sqrt(state.least) * 100);
  byId("least").setAttribute("aria-valuetext", String(state.least));
  byId("least-shown").textContent = state.least;
  byId("cell").value = state.view === "matrix" ? geometry().cell : state.cell;
  byId("one-scale").checked = state.oneScale;
  byId("hide-special").checked = state.hideSpecial;
  for (const view of VIEWS) byId(`${view}-view`).hidden = view !== state.view;
  // The picture ends at the bottom of the window, and scrolls inside.
  const above = document.querySelector("main").getBoundingClientRect().top + scrollY;
  document.body.style.setProperty("--tall", `${Math.max(400, innerHeight - above - 16)}px`);
}

/** Draws everything visible. Each part reuses its drawing if nothing has changed. */
function draw() {
  if (!data) return;
  drawControls();
  if (!arrived()) return;
  drawSaid();
  ({ head: drawHead, model: drawModel, matrix: drawMatrix })[state.view]();
  drawDetail();
}

/** Returns whether the weights of the view are here; if not, their arrival draws. A page with all its data has them. */
let arrived = () => true;

/** Shows what is held, where it opens; `place` may change the state to another place before. */
function openViews(place = readAddress) {
  openState();
  listChoices();
  place();
  showTheme(state.theme);
  draw();
  const first = state.focus?.token ?? (saidOpening().length ? data.start.link[0] : 0);
  byId("scroller").scrollTop = (listed.rowOf.get(first) ?? 0) * rowHeight() - byId("scroller").clientHeight / 2;
}

addEventListener("resize", draw);
// A frame may be laid out after this script, and sends no event for its first size.
new ResizeObserver(() => requestAnimationFrame(draw)).observe(document.documentElement);
addEventListener("keydown", (event) => {
  if (event.key === "Escape") choose({ focus: null });
});
/** Follows an address that was changed while the page is open. */
let followAddress = () => {
  if (!data) return;
  state.focus = null;
  readAddress();
  draw();
};
addEventListener("hashchange", () => {
  if (location.hash !== written) followAddress();
});
darkScreen.addEventListener("change", draw);

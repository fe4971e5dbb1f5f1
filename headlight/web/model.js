// Model view: a small map of each head of each layer. It is shown larger under the pointer; a click opens it.

const ZOOMED = 400; // pixels of a larger map's side
const thumbs = { key: null, data: null, buttons: [] };

/** Returns the side of a thumbnail in pixels, for the available width. */
function thumbSide() {
  const room = byId("model-view").clientWidth - 64 - 10 * HEADS;
  return Math.max(64, Math.min(HEADS > 8 ? 150 : 190, Math.floor(room / HEADS)));
}

function heading(text, className) {
  const made = document.createElement("div");
  made.className = className;
  made.textContent = text;
  return made;
}

function thumb(place, head) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "thumb";
  button.dataset.layer = data.layers[place];
  button.dataset.head = head;
  const note = document.createElement("span");
  button.append(document.createElement("canvas"), note);
  button.addEventListener("click", () => {
    choose({ view: "head", layer: place, heads: [head], several: false });
    byId("heads").querySelector("input:checked")?.focus();
  });
  return { place, head, button, note };
}

/** Builds the grid once for the data: a row for each layer, a column for each head. */
function buildThumbs() {
  if (thumbs.data === data) return;
  const grid = byId("thumbs");
  Object.assign(thumbs, { data, buttons: [] });
  grid.replaceChildren();
  grid.append(heading("", "corner"));
  for (let head = 0; head < HEADS; head++) grid.append(heading(headsNamed([head]), "column"));
  data.layers.forEach((layer, place) => {
    grid.append(heading(data.rollout ? "all layers" : `layer ${layer}`, "row"));
    for (let head = 0; head < HEADS; head++) {
      const made = thumb(place, head);
      thumbs.buttons.push(made);
      grid.append(made.button);
    }
  });
}

function drawModel() {
  buildThumbs();
  const side = thumbSide();
  const key = [edition, side, state.hideSpecial, state.oneScale, isDark(), window.devicePixelRatio].join("|");
  if (thumbs.key !== key) {
    thumbs.key = key;
    byId("thumbs").style.gridTemplateColumns = `max-content repeat(${HEADS}, ${side}px)`;
    const tokens = shown();
    for (const made of thumbs.buttons) made.top = greatest(mapOf(made.place, made.head), tokens);
    const all = Math.max(...thumbs.buttons.map(({ top }) => top.weight));
    for (const made of thumbs.buttons) drawThumb(made, tokens, (state.oneScale ? all : made.top.weight) || 1, side);
  }
  for (const { place, head, button } of thumbs.buttons) {
    const chosen = place === state.layer && state.heads.includes(head);
    button.classList.toggle("chosen", chosen);
    if (chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function drawThumb(made, tokens, top, side) {
  const { place, head, button, note } = made;
  const inner = side - 2; // without the border
  const context = fitted(button.firstChild, inner, inner);
  context.imageSmoothingEnabled = false;
  made.scale = top;
  const map = mapOf(place, head);
  context.drawImage(mapImage(map, tokens, top, Math.round(inner * window.devicePixelRatio)), 0, 0, inner, inner);
  const most = heldWeight(made.top.weight);
  note.textContent = side < 90 || !made.top.weight ? most : `max ${most}`;
  button.setAttribute("aria-label", `${titled(place, headsNamed([head]))}, ${saidGreatest(made.top)}: open it`);
}

const saidGreatest = ({ query, key, weight }) =>
  (weight ? `greatest weight ${shownWeight(weight)}, ${named(query)} → ${named(key)}` : `all weights ${heldWeight(0)}`);

/** A map with labels beside the thumbnail that has the pointer or the keyboard; one at most. */
function drawZoom(made) {
  const zoom = byId("zoom");
  zoom.hidden = !made;
  if (!made) return;
  const { place, head, button, top, scale } = made;
  const tokens = shown();
  const side = Math.min(ZOOMED, innerWidth - 44, innerHeight - 90);
  const { font, margin } = labelRoom(tokens, (side * 0.75) / Math.max(1, tokens.length), side / 4);
  const cell = (side - margin) / Math.max(1, tokens.length);
  const kind = kindSaid(place, [head], " (");
  zoom.firstChild.textContent = `${titled(place, headsNamed([head]))}${kind && `${kind})`}: ${saidGreatest(top)}`;
  const context = fitted(zoom.lastChild, side, side);
  context.imageSmoothingEnabled = false;
  const pixels = Math.round((side - margin) * window.devicePixelRatio);
  context.drawImage(mapImage(mapOf(place, head), tokens, scale, pixels), margin, margin, side - margin, side - margin);
  const at = top.weight ? [tokens.indexOf(top.query), tokens.indexOf(top.key)] : null;
  if (at) drawCross(context, margin, margin, cell, side - margin, at);
  drawLabels(context, { tokens, cell, font, margin, left: margin, top: margin, width: side, height: side, read: at });
  placeBeside(zoom, button.getBoundingClientRect());
}

/** Puts a box beside another where there is room: to the right, to the left, below, else above. */
function placeBeside(made, { left, right, top, bottom }) {
  const [width, height] = [made.offsetWidth + 8, made.offsetHeight + 8];
  let [x, y] = [left, bottom + height <= innerHeight ? bottom + 8 : top - height];
  if (right + width <= innerWidth) [x, y] = [right + 8, top];
  else if (left >= width) [x, y] = [left - width, top];
  made.style.left = `${Math.max(4, Math.min(x, innerWidth - width + 4))}px`;
  made.style.top = `${Math.max(4, Math.min(y, innerHeight - height + 4))}px`;
}

/** Moves the keyboard in the grid. */
function moveInGrid(event) {
  const at = thumbs.buttons.findIndex(({ button }) => button === document.activeElement);
  const steps = { ArrowUp: -HEADS, ArrowDown: HEADS, ArrowLeft: -1, ArrowRight: 1 };
  if (event.key === "Escape") drawZoom(null);
  if (at < 0 || !(event.key in steps)) return;
  event.preventDefault();
  thumbs.buttons[at + steps[event.key]]?.button.focus();
}

const thumbUnder = (event) => thumbs.buttons.find(({ button }) => button === event.target.closest(".thumb"));
for (const kind of ["pointerover", "focusin"]) byId("thumbs").addEventListener(kind, (event) => drawZoom(thumbUnder(event)));
for (const kind of ["pointerleave", "focusout", "click"]) byId("thumbs").addEventListener(kind, () => drawZoom(null));
byId("thumbs").addEventListener("keydown", moveInGrid);
addEventListener("scroll", () => drawZoom(null), { passive: true });

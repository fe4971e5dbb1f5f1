// Model view: a small map of each head of each layer. A click opens it.

const thumbs = { key: null, buttons: [] };

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

/** Builds the grid once: a row for each layer, a column for each head. */
function buildThumbs() {
  if (thumbs.buttons.length) return;
  const grid = byId("thumbs");
  grid.append(heading("", "corner"));
  for (let head = 0; head < HEADS; head++) grid.append(heading(`head ${head}`, "column"));
  data.layers.forEach((layer, place) => {
    grid.append(heading(`layer ${layer}`, "row"));
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
  const key = [side, state.hideSpecial, state.oneScale, isDark(), window.devicePixelRatio].join("|");
  if (thumbs.key !== key) {
    thumbs.key = key;
    byId("thumbs").style.gridTemplateColumns = `max-content repeat(${HEADS}, ${side}px)`;
    const tokens = shown();
    const maps = thumbs.buttons.map(({ place, head }) => rawHead(place, head));
    const tops = maps.map((raw) => greatest(raw, tokens));
    const top = Math.max(1, ...tops);
    thumbs.buttons.forEach((made, at) => drawThumb(made, maps[at], tokens, tops[at], state.oneScale ? top : tops[at], side));
  }
  for (const { place, head, button } of thumbs.buttons) {
    const chosen = place === state.layer && state.heads.includes(head);
    button.classList.toggle("chosen", chosen);
    if (chosen) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}

function drawThumb({ place, head, button, note }, raw, tokens, own, top, side) {
  const inner = side - 2; // without the border
  const context = fitted(button.firstChild, inner, inner);
  context.imageSmoothingEnabled = false;
  context.drawImage(mapImage(raw, tokens, top, Math.round(inner * window.devicePixelRatio)), 0, 0, inner, inner);
  const most = shownWeight(own / UNIT);
  note.textContent = side < 90 ? most : `max ${most}`;
  button.setAttribute("aria-label", `layer ${data.layers[place]}, head ${head}, greatest weight ${most}: open it`);
}

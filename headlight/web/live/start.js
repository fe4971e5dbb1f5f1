// What happens when the page opens.

let openingPage = null;

/** Asks for the models, and sets the form to the address; returns whether there is something to run. */
const openPage = () => (openingPage ??= loadModels().then(readLink).finally(() => (openingPage = null)));

/** Opens the page, and runs what the address or the example has. */
async function start() {
  const before = runs;
  clearProblem();
  try {
    if ((await openPage()) && runs === before) await send();
  } catch (error) {
    showProblem(error);
  }
}

/** After a token was entered: the models, or what was typed meanwhile. */
const startAgain = () => (card.description ? send() : start());

buildControls();
buildComparison();
buildToken();
buildForm();
buildKeys();
byId("picture").addEventListener("click", copyPicture);
for (const id of ["methods", "numbers"]) byId(id).addEventListener("change", () => writeAddress());
// Canvases and cells have the colours of a theme.
const redrawn = () => entryOf()?.last && !entryOf().section && showAnswer();
byId("theme").addEventListener("click", () => {
  redrawn();
  if (card.description) writeAddress();
});
darkScreen.addEventListener("change", redrawn);
showTheme(state.theme);
start();

// The last request as a user would send it without this page: curl, Python, grpcurl. The token is never among it.

const lastRequest = { path: "", method: "", request: null, python: null };
const shellQuoted = (text) => `'${text.replaceAll("'", "'\\''")}'`;
const grpcAddress = () => `${location.hostname}:${document.body.dataset.grpcPort}`;
const secure = () => location.protocol === "https:";

const LANGUAGES = {
  curl: ({ path, request }) => [
    `curl ${new URL(path, location.href.split("#")[0])} \\`,
    ...(bearer ? ['  -H "Authorization: Bearer $HEADLIGHT_TOKEN" \\'] : []),
    "  -H 'Content-Type: application/json' \\",
    `  -d ${shellQuoted(JSON.stringify(request))}`,
  ].join("\n"),
  python: ({ python, request }) => {
    const options = [JSON.stringify(grpcAddress()), ...(request.model ? [`model=${JSON.stringify(request.model)}`] : []), ...(secure() ? ["tls=True"] : []), ...(bearer ? ['token=os.environ["HEADLIGHT_TOKEN"]'] : [])];
    return [...(bearer ? ["import os", ""] : []), ...python.imports, "", `with Client(${options.join(", ")}) as client:`, ...python.lines.map((line) => `    ${line}`)].join("\n");
  },
  grpcurl: ({ method, request }) => [
    `grpcurl ${secure() ? "" : "-plaintext "}\\`,
    ...(bearer ? ['  -H "authorization: Bearer $HEADLIGHT_TOKEN" \\'] : []),
    `  -d ${shellQuoted(JSON.stringify(request))} \\`,
    `  ${grpcAddress()} headlight.v1.HeadlightService/${method}`,
  ].join("\n"),
};

/** Keeps the request that a user would send, for copying. */
function noteRequest({ path, method, request, python }, settings) {
  Object.assign(lastRequest, { path, method, request: { ...modelField(), ...request(settings) }, python: python(settings) });
  drawRequest();
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

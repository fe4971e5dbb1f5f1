// Requests to the service, and its errors in plain words. The bearer token is a variable: it is never stored.

let bearer = "";

/** An error that the page can show. `status` is that of HTTP; 0: there was no answer. */
class ServiceError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks the service, and returns its JSON. Paths are relative: a proxy may serve the page below a folder. */
async function ask(path, body, signal) {
  const headers = { Accept: "application/json" };
  if (body) headers["Content-Type"] = "application/json";
  if (bearer) headers.Authorization = `Bearer ${bearer}`;
  let answer;
  try {
    answer = await fetch(path, { method: body ? "POST" : "GET", headers, body: body && JSON.stringify(body), signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ServiceError(0, "The service does not answer. See whether it still runs and whether this machine can reach it.");
  }
  if (answer.ok) return answer.json();
  const refusal = await answer.json().catch(() => ({}));
  throw new ServiceError(answer.status, plainWords(answer, messageOf(refusal)));
}

/** Asks the chosen model for outputs. */
const encode = (request, signal) => ask("v1/encode", { ...modelField(), ...request, encoding: "base64" }, signal);

/** Returns the service's message: of `{"error": {"message"}}`, `{"error": "…"}` or `{"message"}`. */
function messageOf(body) {
  const message = body?.error?.message ?? body?.error ?? body?.message;
  return typeof message === "string" ? message : "";
}

function plainWords(answer, message) {
  const detail = message ? ` It says: ${message}` : "";
  const after = Number(answer.headers.get("retry-after"));
  const again = after ? `Try again in ${after} s.` : "Try again soon.";
  const words = {
    401: bearer ? "The service does not accept this bearer token." : "This service asks for a bearer token. Enter it above.",
    403: `This token may not do that.${detail}`,
    404: `The service does not have that.${detail}`,
    413: `That is too much for one request.${detail}`,
    429: `The service is busy. ${again}${detail}`,
    503: `The service is starting or shutting down. ${again}`,
    504: `The service did not answer in time. ${again}`,
  };
  if (answer.status in words) return words[answer.status];
  if (answer.status < 500) return `The service refused this. It says: ${message || `status ${answer.status}`}`;
  const id = answer.headers.get("x-request-id");
  return `The service failed (status ${answer.status}).${id ? ` Its log has the request ${id}.` : ""}${detail}`;
}

/** Shows an error; a wrong or missing token opens the panel. */
function showProblem(error) {
  if (error?.name === "AbortError") return;
  const shownError = error instanceof ServiceError ? error.message : `This page failed: ${error?.message ?? error}`;
  byId("problem").textContent = shownError;
  byId("problem").hidden = false;
  if (error.status === 401) openToken(true);
}

function clearProblem() {
  byId("problem").hidden = true;
  byId("problem").textContent = "";
}

/** Opens or closes the panel of the token. */
function openToken(open) {
  byId("token-panel").hidden = !open;
  byId("token-button").setAttribute("aria-expanded", String(open));
  if (open) byId("token").focus();
}

function drawToken() {
  byId("token-button").textContent = bearer ? "Token: set" : "Token";
  byId("forget").disabled = !bearer;
}

/** Takes the token from its field, which is emptied; a header has visible ASCII only. */
function takeToken(event) {
  event.preventDefault();
  const entered = byId("token").value.trim();
  byId("token").value = "";
  if (!/^[\x21-\x7e]+$/.test(entered)) {
    showProblem(new ServiceError(0, "A token has letters, digits and signs of ASCII, without spaces."));
    return;
  }
  bearer = entered;
  openToken(false);
  drawToken();
  startAgain();
}

function buildToken() {
  byId("token-button").addEventListener("click", () => openToken(byId("token-panel").hidden));
  byId("token-panel").addEventListener("submit", takeToken);
  byId("token-panel").addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    openToken(false);
    byId("token-button").focus();
  });
  byId("forget").addEventListener("click", () => {
    bearer = "";
    drawToken();
  });
  drawToken();
}

"""HTTP frontend: the doors that other tools' clients know, and Headlight's own as JSON.

The server runs on an event loop in a thread of its own. A dialect is one door, in `dialects/`: it
decodes JSON, submits to the core, and encodes the answer and the errors in its own form. All else
is common: connections, limits, TLS, tokens, quotas, deadlines, backpressure, drain, metrics.

**To add a dialect**, write a module in `dialects/` and name it in `dialects.ALL`:

    PROTOCOL = "tei"                                   # label of the metrics, one for each door
    EDGE = Edge({Reason.X: "..."}, {"inputs[*].text": "inputs[{}]"})  # its words, its fields

    def routes(door: Door) -> list[Route]:             # called once, at start-up
        return [Route("POST", "/embed", embed), Route("GET", "/health", health, public=True)]

    def encode_error(refusal: ErrorResponse) -> Response:    # errors of its paths, in its form
        return json_response({"error": refusal.message}, refusal.status)

    async def embed(exchange: Exchange) -> Response:
        model, request = await exchange.decoded(decode)    # InvalidInput: it is not JSON
        answer = await exchange.submit(request, JsonForm(model.limits))
        return await exchange.encoded(lambda: json_response(...), answer.prepared.data_bytes)

    def decode(exchange: Exchange, body: dict[str, Any]) -> tuple[ServedModel, Request]:
        model = requested_model(exchange, body)
        with counted(model):                           # what cannot be decoded
            return model, Request([body["inputs"]], ...)

- `Route(method, path, handler, public=False)`: a path that ends in `/*` takes all that follows,
  as `exchange.rest`. A GET route answers HEAD too. `public` routes need no token and no model.
  The path is the label `method` of the metrics, so it is never made of a request.
- `Exchange` (`exchange.py`) is one request: `body` (bytes, within --max-request-bytes), `query`,
  `headers` (lower-case names), `rest`, `deadline` (time.monotonic), `priority`, `waits`, `client`,
  `trace`, `request_id`, `door`. `exchange.fill(request)` sets the fields of a core Request that are
  the same in every dialect: size, deadline, priority, quota owner.
- `await exchange.submit(request, form)` is the core's answer; `await exchange.tokenize(...)` is
  that of `Pipeline.tokenize`; `await exchange.wait(handle)` is that of any other handle. They fill
  the request, cancel it when the client disconnects or the deadline passes, and give its permits
  back once the response is sent.
- A handler raises the errors of `headlight.errors`, or `HttpError` (`http_status.py`) for a status
  of its own. The door maps them, logs them and calls `encode_error`. The dialect need not add
  retry headers, `x-request-id` or `connection`.
- Handlers run on the event loop: they must not block. `exchange.decoded` and `exchange.encoded`
  use a thread for large bodies and answers.

A page without a dialect's form of errors is a dialect too, with `openai.encode_error`.
"""

// Asks a service by OpenAI's client, and prints as JSON what the client returned or raised:
//
//   node client.mjs NAME BASE_URL embed    the requests of standard input, one after the other
//   node client.mjs NAME BASE_URL retry    all at once; also the delays of refused requests
//   node client.mjs NAME BASE_URL abort METRICS
//                                          the first, aborted once it is at work, and the others
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";

const [name, baseURL, command, metrics] = process.argv.slice(2);
const { default: OpenAI } = await import(name);
const requests = JSON.parse(readFileSync(0, "utf-8"));

async function asked(request, signal) {
  const { options, ...body } = request;
  const client = new OpenAI({ baseURL, apiKey: "any", ...options });
  try {
    const { data, model, usage } = await client.embeddings.create(body, { signal });
    return { rows: data.map((each) => each.embedding), model, usage };
  } catch (error) {
    const { status, code, param, message } = error;
    const kind = Object.keys(OpenAI).find((each) => OpenAI[each] === error.constructor);
    return { kind, status, code, param, message };
  }
}

// Returns the vector's length, and for each refusal the delay asked for and the real one, in ms.
async function retried(body) {
  const delays = [];
  let refused = null;
  const recording = async (url, options) => {
    if (refused) delays.push([refused.asked, performance.now() - refused.at]);
    refused = null;
    const answer = await fetch(url, options);
    if (answer.status === 429) {
      refused = { asked: Number(answer.headers.get("retry-after-ms")), at: performance.now() };
    }
    return answer;
  };
  const client = new OpenAI({ baseURL, apiKey: "any", maxRetries: 50, fetch: recording });
  const answer = await client.embeddings.create(body);
  return { length: answer.data[0].embedding.length, delays };
}

// Returns the error of a request that is aborted once the metrics have its tokens in the queue.
async function aborted(request) {
  const controller = new AbortController();
  const answer = asked(request, controller.signal);
  const atWork = /^headlight_queue_tokens\{.*\} [1-9]/m;
  while (!atWork.test(await (await fetch(metrics)).text()));
  controller.abort();
  return answer;
}

const found = [];
if (command === "retry") found.push(...(await Promise.all(requests.map(retried))));
else {
  if (command === "abort") found.push(await aborted(requests.shift()));
  for (const request of requests) found.push(await asked(request));
}
console.log(JSON.stringify(found));

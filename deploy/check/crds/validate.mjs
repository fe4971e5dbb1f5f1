// Holds custom resources to their projects' own types: no unknown field (TypeScript), no bad value (the validators made of the same types).
// Reads a JSON list of {name, object} from standard input; writes a JSON list of lines that say what is wrong. Runs beside node_modules.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const ts = createRequire(import.meta.url)("typescript");

const MODULES = {
  "cert-manager.io/v1": "@kubernetes-models/cert-manager/cert-manager.io/v1",
  "gateway.networking.k8s.io/v1": "@kubernetes-models/gateway-api/gateway.networking.k8s.io/v1",
  "keda.sh/v1alpha1": "@kubernetes-models/keda/keda.sh/v1alpha1",
  "monitoring.coreos.com/v1": "@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1",
};
const OPTIONS = {
  noEmit: true,
  strict: true,
  skipLibCheck: true,
  module: ts.ModuleKind.NodeNext,
  moduleResolution: ts.ModuleResolutionKind.NodeNext,
  target: ts.ScriptTarget.ES2022,
  types: [],
};

/** What the validator of the object's kind says. */
async function values({ name, object }) {
  const kinds = await import(MODULES[object.apiVersion]);
  if (!(object.kind in kinds)) return [`${name}: ${object.apiVersion} has no kind ${object.kind}`];
  try {
    new kinds[object.kind](object).validate();
    return [];
  } catch (error) {
    return [`${name}: ${error.message}`];
  }
}

/** What the compiler says of literals of these types: above all, which fields nobody knows. */
function fields(resources) {
  const sources = new Map();
  for (const [place, { object }] of resources.entries()) {
    const type = `import("${MODULES[object.apiVersion]}").I${object.kind}`;
    sources.set(`${process.cwd()}/resource${place}.mts`, `export const it: ${type} = ${JSON.stringify(object, null, 1)};\n`);
  }
  const host = ts.createCompilerHost(OPTIONS);
  const { fileExists, readFile, getSourceFile } = host;
  host.fileExists = (path) => sources.has(path) || fileExists.call(host, path);
  host.readFile = (path) => sources.get(path) ?? readFile.call(host, path);
  host.getSourceFile = (path, ...rest) =>
    sources.has(path) ? ts.createSourceFile(path, sources.get(path), ...rest) : getSourceFile.call(host, path, ...rest);
  const names = [...sources.keys()];
  return ts.getPreEmitDiagnostics(ts.createProgram(names, OPTIONS, host)).map((found) => {
    const place = names.indexOf(found.file?.fileName);
    return `${resources[place]?.name ?? "the compiler"}: ${ts.flattenDiagnosticMessageText(found.messageText, " ")}`;
  });
}

const resources = JSON.parse(readFileSync(0, "utf8"));
const unknown = resources.filter(({ object }) => !(object.apiVersion in MODULES));
const known = resources.filter(({ object }) => object.apiVersion in MODULES);
const lines = unknown.map(({ name, object }) => `${name}: nobody here knows ${object.apiVersion}; add its types to package.json`);
lines.push(...(await Promise.all(known.map(values))).flat(), ...(known.length ? fields(known) : []));
process.stdout.write(JSON.stringify(lines));

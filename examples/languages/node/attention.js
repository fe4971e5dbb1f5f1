// One Encode from Node, knowing nothing but the contract: node attention.js path/to/headlight.proto host:port
// Prints {dim, norm, row_sum_min, row_sum_max, tokens} as JSON.
'use strict';

const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const TEXT = 'def read(path): return json.loads(open(path).read())';

// Bytes off the wire need not begin where a Float32Array may, and are little-endian whatever this machine is.
function floats(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Float32Array.from({ length: bytes.length / 4 }, (_, index) => view.getFloat32(4 * index, true));
}

function rowSums(weights, width) {
  return Array.from({ length: weights.length / width }, (_, row) =>
    weights.subarray(row * width, (row + 1) * width).reduce((sum, weight) => sum + weight, 0));
}

function summary(response) {
  const pooled = floats(response.pooled[0].data);
  const tokens = response.items[0].token_count;
  const sums = rowSums(floats(response.attention.data), tokens);
  return {
    dim: Number(response.pooled[0].shape[1]),
    norm: Math.hypot(...pooled),
    row_sum_min: Math.min(...sums),
    row_sum_max: Math.max(...sums),
    tokens,
  };
}

const [, , protoPath, target] = process.argv;
if (!target) {
  console.error('usage: node attention.js path/to/headlight.proto host:port');
  process.exit(2);
}
const definition = protoLoader.loadSync(protoPath, { keepCase: true, longs: Number });
const { HeadlightService } = grpc.loadPackageDefinition(definition).headlight.v1;
const client = new HeadlightService(target, grpc.credentials.createInsecure());
const request = { inputs: [{ text: TEXT }], outputs: { pooled: {}, attention: { layers: [-1] } } };
client.Encode(request, { deadline: Date.now() + 30_000 }, (error, response) => {
  client.close();
  if (error) {
    console.error(`${error.code}: ${error.details}`);
    process.exit(1);
  }
  console.log(JSON.stringify(summary(response)));
});

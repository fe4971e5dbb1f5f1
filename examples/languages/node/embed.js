// Embeds a text over gRPC, with grpc-js and headlight.proto alone:
//   node embed.js path/to/headlight.proto 127.0.0.1:50051 "join two paths" 10
// It prints the vector as a list of numbers. The last argument is the deadline in seconds.
'use strict';

const grpc = require('@grpc/grpc-js');
const protoLoader = require('@grpc/proto-loader');

const [, , protoPath, target, text, seconds] = process.argv;
if (!seconds) {
  console.error('usage: node embed.js PROTO HOST:PORT TEXT SECONDS');
  process.exit(2);
}
const definition = protoLoader.loadSync(protoPath, { keepCase: true, longs: Number });
const { HeadlightService } = grpc.loadPackageDefinition(definition).headlight.v1;
const client = new HeadlightService(target, grpc.credentials.createInsecure());
const request = { inputs: [{ text }], outputs: { pooled: {} } };
client.Encode(request, { deadline: Date.now() + 1000 * Number(seconds) }, (error, answer) => {
  client.close();
  if (error) {
    console.error(`${grpc.status[error.code]}: ${error.details}`);
    process.exit(1);
  }
  // The bytes need not begin where a Float32Array may, and are little-endian on every machine.
  const { data } = answer.pooled[0];
  const numbers = Array.from({ length: data.length / 4 }, (_, at) => data.readFloatLE(4 * at));
  console.log(JSON.stringify(numbers));
});

// Tensors of an answer: base64 of little-endian numbers, read as arrays.

function bytesOf(coded) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(coded);
  const binary = atob(coded);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Returns the value of each of the 65,536 bit patterns of IEEE 754 binary16. */
const halves = (() => {
  let table = null;
  return () => {
    table ??= Float32Array.from({ length: 65536 }, (_, bits) => {
      const [exponent, part] = [(bits >> 10) & 31, bits & 1023];
      const size = exponent ? (1 + part / 1024) * 2 ** (exponent - 15) : part * 2 ** -24;
      return bits & 32768 ? -size : size;
    });
    return table;
  };
})();

/** Returns the numbers of a tensor as Float32Array, or an array of integers for indices. */
function numbersOf({ dtype, data: coded }) {
  const { buffer } = bytesOf(coded ?? "");
  if (dtype === "DATA_TYPE_UINT16") return new Uint16Array(buffer);
  if (dtype === "DATA_TYPE_UINT32") return new Uint32Array(buffer);
  if (dtype !== "DATA_TYPE_FLOAT16") return new Float32Array(buffer);
  const [table, coded16] = [halves(), new Uint16Array(buffer)];
  const values = new Float32Array(coded16.length);
  for (let at = 0; at < values.length; at++) values[at] = table[coded16[at]]; // from() with a function takes 20 times as long
  return values;
}

/** Returns the map of one head, [count, count] from `start` in the values, without its zeros. */
function denseMap(values, start, count) {
  const map = { starts: new Uint32Array(count + 1) };
  const whole = values.subarray(start, start + count * count);
  let held = 0;
  for (const weight of whole) held += weight > 0;
  [map.keys, map.weights] = [new Uint32Array(held), new Float32Array(held)];
  let to = 0;
  for (let query = 0; query < count; query++) {
    for (let key = 0; key < count; key++) {
      const weight = whole[query * count + key];
      if (!(weight > 0)) continue;
      map.keys[to] = key;
      map.weights[to++] = weight;
    }
    map.starts[query + 1] = to;
  }
  return map;
}

/** Returns the map of the largest weights of each row, [count, topK], with their keys. */
function topMap(values, places, start, count, topK) {
  const end = start + count * topK;
  return {
    starts: Uint32Array.from({ length: count + 1 }, (_, query) => query * topK),
    keys: Uint32Array.from(places.subarray(start, end)),
    weights: values.slice(start, end),
  };
}

// The data that a page holds itself: packed weights in two blocks of the page; and its first picture.

const block = JSON.parse(byId("data").textContent);
const stored = (() => {
  const coded = byId("weights");
  const binary = atob(coded.textContent);
  coded.remove(); // megabytes that are not read again
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
})();

/** Reads the pairs of a head, as headlight/web/packing.py writes them: distance to the next place, and weight. */
function unpacked(start, end) {
  const count = block.labels.length;
  const starts = new Uint32Array(count + 1);
  const keys = new Uint32Array((end - start) >> 1); // a pair has two bytes or more
  const weights = new Float64Array(keys.length);
  let at = start;
  const integer = () => {
    let [value, shift, byte] = [0, 0, 0];
    do {
      byte = stored[at++];
      value |= (byte & 127) << shift;
      shift += 7;
    } while (byte > 127);
    return value;
  };
  let [place, held, row] = [-1, 0, 0];
  while (at < end) {
    place += integer();
    while (row < Math.floor(place / count)) starts[++row] = held;
    keys[held] = place % count;
    weights[held++] = integer() / block.steps;
  }
  while (row < count) starts[++row] = held;
  return { starts, keys, weights };
}

/** Returns the map of one head; each is read once. */
const storedMap = (() => {
  const kept = new Map();
  let end = 0;
  const ends = block.sizes.map((size) => (end += size));
  return (place, head) => {
    const at = place * block.heads + head;
    if (!kept.has(at)) kept.set(at, unpacked(ends[at] - block.sizes[at], ends[at]));
    return kept.get(at);
  };
})();

buildControls();
hold(block, storedMap);
openViews();

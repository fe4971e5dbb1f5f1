// Colours for both themes. Lines: twelve, chosen so that the nearest two are as far apart as can be, with and without full
// colour vision, at a contrast of 3 to the page. Maps: one hue whose brightness alone carries the number.

const LINES = {
  light: [
    "#3662dc", "#fd3a33", "#066d63", "#e549ac", "#6e8a09", "#a16eff",
    "#3f3e03", "#5997d4", "#b47c6d", "#943e98", "#6d1f4d", "#303289",
  ],
  dark: [
    "#1483c2", "#ec6b5b", "#37d1bf", "#b84b96", "#a0f46a", "#6d51da",
    "#bcb403", "#9496a4", "#83635a", "#cd76fa", "#f0dce2", "#b1b7ff",
  ],
};
const RAMPS = {
  light: [[247, 249, 251], [201, 220, 238], [120, 174, 215], [42, 113, 176], [8, 40, 92]],
  dark: [[24, 28, 34], [26, 58, 96], [41, 108, 168], [118, 176, 222], [240, 247, 255]],
};
const darkScreen = matchMedia("(prefers-color-scheme: dark)");

const isDark = () => (state.theme === "system" ? darkScreen.matches : state.theme === "dark");
const lineColour = (head) => {
  const colours = LINES[isDark() ? "dark" : "light"];
  return colours[head % colours.length];
};

/** Returns black or white, the more readable one on a colour: both are equal at luminance 0.18. */
function readableOn(colour) {
  const [red, green, blue] = [1, 3, 5].map((at) => (Number.parseInt(colour.slice(at, at + 2), 16) / 255) ** 2.2);
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 ? "#000000" : "#ffffff";
}

/** Returns 256 colours from 0 to the top of the scale: integers for a little-endian ImageData. */
const ramp = (() => {
  const made = {};
  return () => {
    const name = isDark() ? "dark" : "light";
    made[name] ??= Uint32Array.from({ length: 256 }, (_, at) => {
      const stops = RAMPS[name];
      const place = (at / 255) * (stops.length - 1);
      const low = Math.min(Math.floor(place), stops.length - 2);
      const [red, green, blue] = stops[low].map((from, part) =>
        Math.round(from + (stops[low + 1][part] - from) * (place - low)));
      return ((255 << 24) | (blue << 16) | (green << 8) | red) >>> 0;
    });
    return made[name];
  };
})();

/** Returns a colour of the style sheet. */
const themed = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** Sizes a canvas to the screen's pixels, and returns a context in units of CSS pixels. */
function fitted(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  const [wide, high] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}

/**
 * A map of the tokens shown as a small image, at most `side` pixels wide: of cells that fall together the greatest is seen.
 * Weights that are left out stay blank.
 */
function mapImage(map, shown, top, side) {
  const size = Math.max(1, Math.min(shown.length, side));
  const pixelOf = new Int32Array(COUNT).fill(-1);
  shown.forEach((token, at) => (pixelOf[token] = Math.floor((at * size) / shown.length)));
  const greatestOf = new Float32Array(size * size);
  for (const query of shown) {
    for (let at = map.starts[query]; at < map.starts[query + 1]; at++) {
      if (pixelOf[map.keys[at]] < 0) continue;
      const pixel = pixelOf[query] * size + pixelOf[map.keys[at]];
      greatestOf[pixel] = Math.max(greatestOf[pixel], map.weights[at]);
    }
  }
  const image = new ImageData(size, size);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = ramp();
  for (let at = 0; at < pixels.length; at++) {
    if (greatestOf[at] || !FLOOR) pixels[at] = colours[Math.min(255, Math.round((greatestOf[at] / top) * 255))];
  }
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = size;
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

/** Draws the colour scale of a map. */
function drawRamp() {
  const canvas = byId("ramp");
  canvas.width = 256;
  const image = new ImageData(256, canvas.height);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = ramp();
  for (let at = 0; at < pixels.length; at++) pixels[at] = colours[at % 256];
  canvas.getContext("2d").putImageData(image, 0, 0);
}

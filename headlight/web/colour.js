// Colours for both themes. Lines: Okabe and Ito's palette, distinguishable without full colour
// vision. Maps: one hue, whose brightness shows the number.

const LINES = {
  light: ["#0072b2", "#d55e00", "#00865f", "#b8578f", "#b27700", "#2f8fc9", "#7a6f00", "#666b73"],
  dark: ["#4fa9e6", "#ff8f4a", "#35c99f", "#e5a0c8", "#f0b13c", "#8fd2f7", "#d9cc4a", "#b4bac4"],
};
const RAMPS = {
  light: [[247, 249, 251], [201, 220, 238], [120, 174, 215], [42, 113, 176], [8, 40, 92]],
  dark: [[24, 28, 34], [26, 58, 96], [41, 108, 168], [118, 176, 222], [240, 247, 255]],
};
const THEMES = ["system", "light", "dark"];
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
 * Returns a map of the shown tokens as an image of at most `side` pixels. If several cells share a
 * pixel, the greatest is shown.
 */
function mapImage(weights, shown, top, side) {
  const size = Math.max(1, Math.min(shown.length, side));
  const greatestOf = new Float32Array(size * size);
  shown.forEach((query, row) => {
    const down = Math.floor((row * size) / shown.length) * size;
    shown.forEach((key, column) => {
      const at = down + Math.floor((column * size) / shown.length);
      greatestOf[at] = Math.max(greatestOf[at], weights[query * COUNT + key]);
    });
  });
  const image = new ImageData(size, size);
  const pixels = new Uint32Array(image.data.buffer);
  const colours = ramp();
  for (let at = 0; at < pixels.length; at++) pixels[at] = colours[Math.min(255, Math.round((greatestOf[at] / top) * 255))];
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

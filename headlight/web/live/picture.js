// A picture of the view to copy: its elements, with the page's style, are drawn as an image by the browser. It loads nothing:
// the image is a data: address, which the page's policy allows.

const MOST_PIXELS_OF_PICTURE = 2 ** 24;
const EDGE = 16; // pixels around the view
const CAPTION_HEIGHT = 34; // pixels of the line above the view
const LEFT_OUT = "[hidden], .away, .left-out, .controls, #query-said, button:not(.thumb), input, select";
const SHOWN_ATTRIBUTES = ["id", "class", "dir", "role", "aria-selected", "aria-pressed"];
// What XML cannot hold, also halves of a surrogate pair.
const NO_XML = /[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\u{10000}-\u{10ffff}]/gu;
const xml = (text) => text.replace(NO_XML, "�").replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;");

/** Returns an element and its content as XHTML: canvases as images, and what scrolls as far as it is in sight. */
function markupOf(node) {
  if (node.nodeType === Node.TEXT_NODE) return xml(node.data);
  if (node.nodeType !== Node.ELEMENT_NODE || node.matches(LEFT_OUT)) return "";
  const style = [node.getAttribute("style") ?? ""];
  const attributes = SHOWN_ATTRIBUTES.filter((name) => node.hasAttribute(name)).map((name) => ` ${name}="${xml(node.getAttribute(name))}"`).join("");
  if (node.tagName === "CANVAS") {
    const { width, height } = node.getBoundingClientRect();
    style.push(`display:block;width:${width}px;height:${height}px`);
    return `<img${attributes} style="${xml(style.join(";"))}" src="${node.toDataURL()}"/>`;
  }
  if (node.scrollHeight > node.clientHeight + 1 && getComputedStyle(node).overflowY !== "visible") style.push(`height:${node.clientHeight}px;overflow:hidden`);
  if (node.parentElement.className === "sheet" && node.className === "tokens") style.push(`margin-top:${-byId("scroller").scrollTop}px`);
  const name = node.localName;
  return `<${name}${attributes} style="${xml(style.join(";"))}">${[...node.childNodes].map(markupOf).join("")}</${name}>`;
}

/** Returns the pixels of what stands above or below other parts of the view, and is not in the picture. */
const leftOutHeight = (view) => [...view.children].filter((part) => part.matches(LEFT_OUT) && part.checkVisibility()).reduce((sum, part) => {
  const { top, height } = part.getBoundingClientRect();
  return sum + (part.nextElementSibling?.checkVisibility() ? part.nextElementSibling.getBoundingClientRect().top - top : height);
}, 0);

/** Returns the image of an element as SVG, with its width and height. */
function svgOf(view, caption) {
  const box = view.getBoundingClientRect();
  const beyond = Math.max(0, ...[...view.querySelectorAll(".wide-table, #thumbs")].map((part) => part.scrollWidth - part.clientWidth));
  const [width, height] = [Math.ceil(box.width + beyond) + 2 * EDGE, Math.ceil(box.height - leftOutHeight(view)) + 2 * EDGE + CAPTION_HEIGHT];
  // As wide and high as the window at least: rules for small windows count as on the page.
  const [wide, high] = [Math.max(width, innerWidth), Math.max(height, innerHeight)];
  const style = `${document.querySelector("style").textContent}
    body { margin: 0; padding: ${EDGE}px; max-width: none; width: ${width}px; height: ${high}px; }
    .picture-caption { height: ${CAPTION_HEIGHT}px; font-weight: 650; white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
    .picture-view { width: ${box.width + beyond}px; }
    .picture-view > * { margin: 0 !important; }
    .wide-table, #thumbs { overflow: hidden; }`;
  const body = `<body xmlns="http://www.w3.org/1999/xhtml" class="live" data-view="${xml(state.view)}" style="${xml(document.body.getAttribute("style") ?? "")}">` +
    `<div class="picture-caption">${xml(caption)}</div><div class="picture-view">${markupOf(view)}</div></body>`;
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" data-theme="${isDark() ? "dark" : "light"}" width="${wide}" height="${high}">` +
    `<style>${xml(style)}</style><foreignObject width="100%" height="100%">${body}</foreignObject></svg>`;
  return { svg, width, height, wide, high };
}

/** Returns the view as a PNG, in the screen's pixels. */
async function pictureOf(view, caption) {
  const { svg, width, height, wide, high } = svgOf(view, caption);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  await image.decode();
  const scale = Math.min(Math.max(1, devicePixelRatio), Math.sqrt(MOST_PIXELS_OF_PICTURE / (width * height)));
  const canvas = element("canvas");
  [canvas.width, canvas.height] = [Math.round(width * scale), Math.round(height * scale)];
  const context = canvas.getContext("2d");
  context.fillStyle = themed("paper");
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, wide * scale, high * scale);
  return new Promise((done, failed) => canvas.toBlob((blob) => (blob ? done(blob) : failed(new Error("the picture is too large"))), "image/png"));
}

/** Copies the picture; a browser that refuses it, as without TLS on another host, saves it instead. */
async function copyPicture() {
  byId("picture-said").textContent = "";
  const entry = entryOf();
  const model = card.description.model.name;
  const view = entry.pictured?.() ?? byId(entry.section ?? "result-parts");
  const picture = pictureOf(view, `${entry.caption?.() ?? entry.title} · ${model}`);
  try {
    await navigator.clipboard.write([new ClipboardItem({ "image/png": picture })]);
    byId("picture-said").textContent = "Copied.";
  } catch {
    try {
      save(await picture, `headlight-${task()}.png`);
    } catch (error) {
      showProblem(error);
    }
  }
}

function save(blob, name) {
  const link = element("a");
  Object.assign(link, { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000); // the browser reads it meanwhile
  byId("picture-said").textContent = `Saved as ${name}: this browser does not let the page copy a picture.`;
}

"""The picture that the page copies: the view as the browser draws it."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest

from tests.system.browser import SECONDS, Browser
from tests.system.live import ANSWERED, send, show_task, visit
from tests.system.pages import SHORT
from tests.system.processes import Service

# Mean difference of the channels of two images, both drawn at a quarter of their size.
DIFFERENCE = """
(async () => { const pixels = await Promise.all(SOURCES.map(async (source) => {
  const image = new Image(); image.src = source; await image.decode();
  const canvas = document.createElement("canvas"); [canvas.width, canvas.height] = SIZE;
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.fillStyle = "#888"; context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(image, 0, 0, image.width / 4, image.height / 4);
  return context.getImageData(0, 0, canvas.width, canvas.height).data; }));
  const sum = pixels[0].reduce((all, value, at) => all + Math.abs(value - pixels[1][at]), 0);
  return sum / pixels[0].length;
})()
"""
COPIED = """
navigator.clipboard.read().then(async ([item]) => { const blob = await item.getType("image/png");
  return new Promise((done) => { const reader = new FileReader();
    reader.onload = () => done(reader.result); reader.readAsDataURL(blob); }); })
"""
EDGE, CAPTION = 16, 34  # pixels around the view, and of the line above it


def copy(page: Browser) -> None:
    page.click("#picture")
    page.wait("document.querySelector('#picture-said').textContent")


def differing(page: Browser, selector: str, picture: str) -> float:
    """Return how far a picture is from an element on the screen."""
    page.evaluate("document.activeElement.blur()")
    x, y, width, height = page.evaluate(
        f"(() => {{ const box = document.querySelector({json.dumps(selector)})"
        ".getBoundingClientRect();"
        " return [box.x + scrollX, box.y + scrollY, box.width, box.height]; })()"
    )
    box = {"x": x - EDGE, "y": y - EDGE - CAPTION, "width": width + 2 * EDGE}
    clip = {**box, "height": height + 2 * EDGE + CAPTION, "scale": 1}
    seen = base64.b64encode(page.picture(clip=clip, captureBeyondViewport=True)).decode()
    size = [int(clip["width"] / 4), int(clip["height"] / 4)]
    sources = json.dumps([f"data:image/png;base64,{seen}", picture])
    difference: float = page.evaluate(
        DIFFERENCE.replace("SOURCES", sources).replace("SIZE", json.dumps(size))
    )
    return difference


@pytest.mark.parametrize("dark", [False, True])
def test_the_copied_picture_is_what_is_seen(dark: bool, chromium: Browser, rope: Service) -> None:
    chromium.call(
        "Browser.grantPermissions",
        permissions=["clipboardReadWrite", "clipboardSanitizedWrite"],
    )
    with visit(chromium, rope.rest) as page:
        page.screen(1280, 900, dark=dark)
        send(page, SHORT)
        pictures = {}
        for at, view in enumerate(("head", "model", "matrix"), 1):
            page.click(f"#view label:nth-of-type({at})")
            copy(page)
            pictures[view] = page.evaluate(COPIED)
            # What stands above the view on the screen is not in the picture, but its title.
            assert differing(page, f"#{view}-view", pictures[view]) < 6
        assert differing(page, "#matrix-view", pictures["model"]) > 12
        show_task(page, "similarity")
        send(page, "read a \x07 <b>file</b> & more\nparse 🙂\nwrite", "#texts")
        copy(page)
        assert differing(page, "#result-parts", page.evaluate(COPIED)) < 6
        show_task(page, "compare")
        page.fill("#query", "read a file")
        send(page, "open a file\nשלום 🙂", "#passages")
        copy(page)
        width, height = page.evaluate(
            f"({COPIED}).then(async (url) => {{ const image = new Image(); image.src = url;"
            " await image.decode(); return [image.width, image.height]; })"
        )
        assert width > 1000
        assert height > 200


def test_a_browser_that_refuses_the_clipboard_saves_the_picture(
    chromium: Browser, rope: Service, tmp_path: Path
) -> None:
    """As without TLS on another host."""
    chromium.call("Browser.setDownloadBehavior", behavior="allow", downloadPath=str(tmp_path))
    with visit(chromium, rope.rest) as page:
        page.wait(f"document.querySelector('#views').checkVisibility() && {ANSWERED}")
        page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined }); 0")
        copy(page)
        assert "Saved as headlight-attention.png" in page.text("#picture-said")
        file, end = tmp_path / "headlight-attention.png", time.monotonic() + SECONDS
        while not file.exists() and time.monotonic() < end:
            page.settle()
        assert file.read_bytes().startswith(b"\x89PNG")

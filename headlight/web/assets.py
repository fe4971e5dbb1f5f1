"""Files of the pages: style, scripts, and the markup of the views."""

from __future__ import annotations

import base64
import hashlib
import importlib.resources

# The three views, of the page that a command writes and of the page that the service serves.
VIEW_SCRIPTS = (
    "elements.js",
    "data.js",
    "kinds.js",
    "colour.js",
    "state.js",
    "head.js",
    "model.js",
    "matrix.js",
    "detail.js",
    "controls.js",
)


def asset(name: str) -> str:
    """Return a file of `headlight/web`."""
    return importlib.resources.files("headlight").joinpath("web", name).read_text(encoding="utf-8")


def script_of(*names: str) -> str:
    """Return scripts as one that defines no global names."""
    scripts = "\n".join(asset(name) for name in names)
    return f'(() => {{\n"use strict";\n{scripts}}})();\n'


def digest(content: str) -> str:
    """Return the hash of an element for the page's policy: base64 of the SHA-256 of its content."""
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode("ascii")

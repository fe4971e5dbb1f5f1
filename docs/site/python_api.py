"""Page of the public Python API; mkdocstrings fills it from the docstrings."""

from __future__ import annotations

import importlib

from docs.site.markdown import NOTE

MODULES = ("headlight", "headlight.runtime", "headlight.analysis")
# Modules without __all__: the functions that docs/heads.md names.
FUNCTIONS = {
    "headlight.adapters": ("to_hf", "to_bertviz", "to_transformer_lens", "to_lit"),
    "headlight.archive": ("write_npz", "read_npz", "write_safetensors", "read_safetensors"),
}
# Their methods are those of `headlight.Encoder`.
ENCODERS = ("headlight.Client", "headlight.runtime.Runtime")
INHERITED = "\n    options:\n      inherited_members: true"


def public_names() -> dict[str, tuple[str, ...]]:
    """Return the public names of each module."""
    names = {name: tuple(importlib.import_module(name).__all__) for name in MODULES}
    for module, functions in FUNCTIONS.items():
        found = importlib.import_module(module)
        names[module] = tuple(name for name in functions if getattr(found, name))
    return names


def page() -> str:
    """Return the page: a list of links, which fail if an object is missing, and the objects."""
    parts = [f"{NOTE}# Python API"]
    for module, names in public_names().items():
        summary = (importlib.import_module(module).__doc__ or "").strip().partition("\n")[0]
        links = " · ".join(f"[`{name}`](#{module}.{name})" for name in names)
        parts += [f"## `{module}`", summary, links]
        parts += [reference(f"{module}.{name}") for name in names]
    return "\n\n".join(parts) + "\n"


def reference(name: str) -> str:
    """Return what mkdocstrings replaces by an object's documentation."""
    return f"::: {name}{INHERITED if name in ENCODERS else ''}"

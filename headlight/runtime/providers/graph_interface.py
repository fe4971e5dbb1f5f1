"""Whether a graph that has been opened is the one that the manifest describes."""

from __future__ import annotations

from headlight.errors import BundleError
from headlight.runtime.attention.graph_selectors import selected_names
from headlight.runtime.bundle.manifest import Architecture, Graph, Manifest
from headlight.runtime.providers.session import Session


def check_interface(session: Session, graph: Graph, manifest: Manifest) -> None:
    """A graph must take and give what the manifest says, in the sizes of its architecture.

    Raises:
        BundleError: naming what differs.
    """
    _check_prompts(graph, manifest.include_prompt)
    outputs, inputs = session.outputs, session.inputs
    for what, found, declared in (("takes", inputs, graph.inputs), ("gives", set(outputs), graph.outputs)):
        if found != set(declared):
            problem = f"{what} {sorted(found)!a:.200}; the manifest says {sorted(declared)!a:.200}"
            raise BundleError(problem, graph.file)
    for name, expected in _shapes(graph.role, manifest.architecture).items():
        if name not in outputs:
            raise BundleError(f"does not give {name}, as the manifest's architecture has it", graph.file)
        shape = outputs[name]
        fits = len(shape) == len(expected) and not any(
            isinstance(size, int) and fixed and size != fixed for size, fixed in zip(shape, expected, strict=True)
        )
        if not fits:
            wanted = [size or "any" for size in expected]
            problem = f"gives {name} in the shape {shape!a:.80}; the manifest's architecture makes it {wanted}"
            raise BundleError(problem, graph.file)


def _shapes(role: str, architecture: Architecture) -> dict[str, tuple[int, ...]]:
    """Of each output a graph must have; 0 for what varies."""
    layers, heads, dim = architecture.layers, architecture.heads, architecture.dim
    shapes: dict[str, tuple[int, ...]] = {"pooled": (0, architecture.pooled_dim), "tokens": (0, 0, dim)}
    if role == "attend":
        shapes |= dict.fromkeys(selected_names(layers), (0, 0, 0, 0))
        shapes |= {f"rows_{layer}": (0, heads, 0, 0) for layer in range(layers)}
        shapes |= {f"hidden_{layer}": (0, 0, dim) for layer in range(layers + 1)}
    return shapes


def _check_prompts(graph: Graph, include_prompt: bool) -> None:
    """Raises BundleError where prompts would be pooled that the manifest says are not to be, or a graph waits for what is not fed."""
    if ("pool_mask" in graph.inputs) == include_prompt:
        must = "must not take pool_mask" if include_prompt else "must take pool_mask"
        raise BundleError(f"{must}: the manifest's include_prompt is {str(include_prompt).lower()}", graph.file)

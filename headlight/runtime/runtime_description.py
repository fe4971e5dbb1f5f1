"""Description of a model that is computed in this process."""

from __future__ import annotations

from collections.abc import Collection

from headlight.description import Limits, ModelDescription
from headlight.outputs.registry import GRAPH_ROLES
from headlight.outputs.vector_forms import AvailableForms
from headlight.runtime.bundle.bundle import Bundle

NO_LIMITS = Limits(0, 0, 0, 0, 0, 0)


def describe(
    bundle: Bundle,
    forms: AvailableForms,
    *,
    provider: str,
    precision: str,
    graph_roles: Collection[str],
    texts: bool,
) -> ModelDescription:
    """Return the description of a bundle on a provider, without limits.

    Args:
        bundle: verified.
        forms: of its vectors.
        provider, precision: in use.
        graph_roles: of the graphs that are loaded.
        texts: whether there is a tokenizer.
    """
    manifest, architecture = bundle.manifest, bundle.manifest.architecture
    return ModelDescription(
        name=manifest.name,
        version=manifest.version,
        bundle_sha256=bundle.sha256,
        provider=provider,
        precision=precision,
        positions=architecture.positions,
        layers=architecture.layers,
        heads=architecture.heads,
        dim=architecture.dim,
        vocab_size=architecture.vocab_size,
        trained_length=manifest.trained_length,
        max_length=manifest.max_length,
        pooling=manifest.pooling,
        normalized=manifest.normalize,
        accepts=tuple(kind for kind in manifest.accepts if kind == "ids" or texts),
        outputs=tuple(name for name in manifest.outputs if GRAPH_ROLES.get(name) in graph_roles),
        limits=NO_LIMITS,
        variants=manifest.variants,
        parity=manifest.parity,
        pooled_dim=architecture.pooled_dim,
        quality=manifest.quality,
        prompts=manifest.prompts,
        default_prompt=manifest.default_prompt,
        include_prompt=manifest.include_prompt,
        trained_dimensions=manifest.dimensions,
        pooled_types=forms.dtypes,
        int8_dimensions=tuple(sorted(forms.ranges)),
        similarity=manifest.similarity,
        task=manifest.task,
        labels=manifest.labels,
        token_labels=architecture.token_labels,
        activation=manifest.activation,
        multi_vector_dim=architecture.multi_vector_dim,
        query_tokens=manifest.roles["query"].expanded_length if "query" in manifest.roles else 0,
    )

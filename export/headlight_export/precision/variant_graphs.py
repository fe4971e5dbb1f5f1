"""Graphs of a draft's variants: calibrated, searched, and listed with provisional tolerances."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx

from headlight.outputs.registry import MEASURED
from headlight.runtime.bundle.manifest import Graph, Manifest, TextSet, Tolerance
from headlight.runtime.engine.batches import BATCH_TOKENS
from headlight.runtime.runtime import Runtime
from headlight.runtime.values import Floats
from headlight_export.precision.graph_files import CPU, OPENVINO, convertible, write_precision
from headlight_export.precision.layer_search import Measure, Search, layer_products, search
from headlight_export.precision.quality import common_neighbours, mean_cosine, vectors
from headlight_export.precision.sample_texts import (
    Passages,
    calibration,
    language_reference,
    spread,
)
from headlight_export.precision.sample_texts import passages as read_passages
from headlight_export.precision.static_int8 import calibrate, write_static
from headlight_export.progress import Progress
from headlight_model.encoder import Encoder

Variant = tuple[str, str]  # a provider and a precision
Save = Callable[[Manifest], Manifest]
STATIC = (OPENVINO, "int8")  # calibrated
RANKING = 64  # texts whose mean cosine ranks layers; neighbours are counted among all
PROVISIONAL = 1e9  # tolerance before measurement


class VariantGraphs:
    """The graphs of other precisions in a draft, and the texts used for them."""

    def __init__(
        self, draft: Path, manifest: Manifest, variants: Sequence[Variant], encoder: Encoder
    ) -> None:
        """Prepare for a draft of fp32 graphs; nothing is written yet."""
        self._draft, self._manifest, self._variants = draft, manifest, variants
        self._config = encoder.config
        self._exact = convertible(manifest.graphs)
        self._writers: dict[Variant, Callable[..., list[Graph]]] = {
            (provider, precision): functools.partial(
                write_precision, draft, self._exact, precision, encoder
            )
            for provider, precision in variants
            if provider == CPU
        }
        self._graphs: dict[Variant, list[Graph]] = {}
        self.text_sets: list[TextSet] = []

    def calibrate(self, texts: Sequence[str] | None) -> None:
        """Calibrate int8 for OpenVINO on texts; None: docstrings of Python's library."""
        read = calibration(self._config, self._tokenizer(), texts)
        self.text_sets.append(read.described("calibration"))
        calibrated = calibrate(self._embed(weights=True), read.items)
        self._writers[STATIC] = functools.partial(
            write_static, self._draft, self._exact, calibrated
        )

    def write(self, save: Save) -> Manifest:
        """Write the graphs, with all products in the variant's precision, and the manifest."""
        for variant, writer in self._writers.items():
            self._graphs[variant] = writer()
        return self.save(save)

    def save(self, save: Save) -> Manifest:
        """Save the manifest with these graphs and provisional tolerances."""
        # These come before those of any provider, and are found first.
        limits = dict.fromkeys(MEASURED, PROVISIONAL)
        provisional = (
            Tolerance(provider=provider, precision=precision, limits=limits)
            for provider, precision in self._variants
        )
        added = (graph for written in self._graphs.values() for graph in written)
        return save(
            dataclasses.replace(
                self._manifest,
                graphs=(*self._manifest.graphs, *added),
                tolerances=(*provisional, *self._manifest.tolerances),
                text_sets=tuple(self.text_sets),
            )
        )

    def search(self, target: float, save: Save, progress: Progress) -> dict[Variant, Search]:
        """Choose the layers of each int8 variant that stay in fp32.

        Args:
            target: share of the ten nearest texts that must stay.
            save: writes a manifest into the draft.
            progress: called with each step.

        Raises:
            TargetMissed: it is out of reach.
        """
        texts = read_passages(self._config, self._tokenizer(), None, language_reference)
        self.text_sets.append(texts.described("search"))
        exact = vectors(Runtime(self._draft, provider=CPU, streams=1, attend=False), texts)
        few = dataclasses.replace(texts, items=tuple(spread(texts.items, RANKING)))
        exact_few = np.stack(spread(list(exact), RANKING))
        groups = layer_products(self._embed(weights=False).graph)
        by_layer = {}
        for variant in (variant for variant in self._variants if variant[1] == "int8"):
            chosen = search(
                groups,
                target,
                self._measure(variant, texts, save, functools.partial(common_neighbours, exact)),
                self._measure(variant, few, save, functools.partial(mean_cosine, exact_few)),
                progress,
                variant[0],
            )
            kept = frozenset(name for group in chosen.kept for name in groups[group])
            self._graphs[variant] = self._writers[variant](kept)
            by_layer[variant] = chosen
        return by_layer

    def _measure(
        self,
        variant: Variant,
        texts: Passages,
        save: Save,
        compare: Callable[[Floats], float],
    ) -> Measure:
        """Return a function that writes a variant with some products in fp32, and compares it."""
        provider, precision = variant

        def measure(kept: frozenset[str]) -> float:
            self._graphs[variant] = self._writers[variant](kept)
            self.save(save)
            runtime = Runtime(
                self._draft,
                provider=provider,
                precision=precision,
                attend=False,
                streams=1,
                batch_tokens=BATCH_TOKENS,
                round_lengths=1,
                self_test=False,  # its tolerance is not known yet
            )
            return compare(vectors(runtime, texts))

        return measure

    def _tokenizer(self) -> Path:
        assert self._manifest.tokenizer is not None  # see variants.check_texts_readable
        return self._draft / self._manifest.tokenizer

    def _embed(self, *, weights: bool) -> onnx.ModelProto:
        [graph] = [graph for graph in self._exact if graph.role == "embed"]
        return onnx.load(self._draft / graph.file, load_external_data=weights)

"""In-process inference without a server.

The service wraps it, and the exporter proves parity with it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import weakref
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from numpy.typing import ArrayLike

from headlight import __version__
from headlight.errors import HeadlightError, InvalidInput, Reason, renamed
from headlight.extras import version_of
from headlight.interface.arguments import checked_head_mask
from headlight.outputs.registry import GRAPH_ROLES, OUTPUTS
from headlight.outputs.spans import SPANS
from headlight.outputs.vector_forms import AvailableForms
from headlight.runtime.batch_shape import CUDA_MULTIPLE, choices, fastest, kept
from headlight.runtime.bundle.bundle import Bundle
from headlight.runtime.bundle.int8_ranges import load_ranges
from headlight.runtime.bundle.manifest import Graph
from headlight.runtime.bundle.prompts import Prompt, Prompts
from headlight.runtime.bundle.query_terms import load_query_terms
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.encode_items import EncodeItem, ItemResult, Selection, item_of
from headlight.runtime.engine.engine import Engine
from headlight.runtime.local_encoder import LocalEncoder
from headlight.runtime.local_results import Prepared
from headlight.runtime.parity.self_test import SelfTest
from headlight.runtime.providers.cuda_session import Gpu
from headlight.runtime.providers.openvino_session import processor
from headlight.runtime.providers.provider_choice import ANY_GPU, choose_provider
from headlight.runtime.providers.worker_layout import choose_workers, share, usable_cpus
from headlight.runtime.runtime_description import describe
from headlight.runtime.spelling import Spelling
from headlight.runtime.tokenization.input_checks import (
    Input,
    Truncation,
    checked_ids,
    is_pair,
    list_of_ids,
    not_taken,
)
from headlight.runtime.tokenization.input_roles import NO_RULES, in_role, no_pieces
from headlight.runtime.tokenization.tokenizer import Tokenizer, open_tokenizer
from headlight.runtime.values import Floats, Tokenized
from headlight.spec import (
    EMPTY_TEXTS,
    SPECIAL_TOKENS,
    EmptyTexts,
    InputRole,
    SpecialTokens,
    check_name,
)


class Runtime(LocalEncoder):
    """A bundle, ready to encode, with the methods of `headlight.Client`.

    Threads may share it. It closes with its `with` block, or by `close()`.

    Attributes:
        graph_roles: the graphs loaded: "embed", "attend".

    Example:
        >>> with Runtime("build/bundles/docs-rope") as runtime:
        ...     runtime.encode("join two paths").shape
        ...     runtime.attend("join two paths")
        (256,)
        <Attention docs-rope: 4 layers × 8 heads × 5 tokens>
    """

    def __init__(
        self,
        bundle: Path | str,
        *,
        provider: str = "auto",
        precision: str = "fp32",
        threads: int | None = None,
        streams: int | None = None,
        wide: bool | None = None,
        sha256: str | None = None,
        attend: bool = True,
        batch_tokens: int | None = None,
        round_lengths: int | None = None,
        gpu: Gpu = ANY_GPU,
        self_test: bool = True,
    ) -> None:
        """Verify the bundle, open it, and compare its answers here with those of PyTorch.

        Args:
            bundle: the directory.
            provider: "cpu", "openvino" or "cuda"; "auto" is "cuda" if it has a device, else "cpu".
            precision: "fp32"; or "bf16", "fp16" or "int8" if the bundle has graphs for it.
            threads: threads of each batch; None: concurrent batches share the CPUs that the process
                may use.
            streams: batches at once; None: one for each CPU, at most 8; on "cuda" 1.
            wide: whether a lone batch gets all threads, at the cost of more memory; None: see
                `choose_workers`.
            sha256: the digest that the manifest must have.
            attend: False saves the memory of the graph for attention and hidden states.
            batch_tokens: most padded tokens of a batch of vectors. None: the fastest here. On
                "openvino" it is measured once, in about a second, and kept in the cache;
                elsewhere 512.
            round_lengths: pad batches to a multiple of this many tokens, up to the model's limit;
                int8 on "openvino" also to one of 16. None: measured on "openvino", 16 on "cuda",
                elsewhere 1.
            gpu: the device, its memory limit, and whether to record short batches, on "cuda".
            self_test: whether to run the bundle's short golden inputs on every session. False is
                for callers that run `check_golden` themselves.

        Raises:
            BundleError: it is damaged or altered, lacks the precision, the provider is missing, or
                this machine's numbers differ from PyTorch's.
            DeviceFull, HostFull: there is too little memory for the golden inputs.
        """
        self.provider = choose_provider(provider, precision, gpu)

        def opens(graph: Graph) -> bool:
            if graph.role == "head":
                return self.provider in graph.providers
            made_for = self.provider in graph.providers and graph.precision == precision
            return made_for and (attend or graph.role == "embed")

        self.bundle = Bundle(Path(bundle), sha256, opens=opens)
        self.precision = precision
        attend = attend and self.bundle.manifest.attends
        if streams is None and self.provider == "cuda":
            streams = 1
        embed = self.bundle.manifest.graph("embed", self.provider, precision)
        self.workers = choose_workers(
            *share(streams, threads, usable_cpus()),
            wide=wide,
            provider=self.provider,
            attend=attend,
            weights=self.bundle.graphs[embed.file].packed_bytes,
        )
        self.engine = Engine(
            self.bundle,
            provider=self.provider,
            precision=precision,
            workers=self.workers,
            attend=attend,
            gpu=gpu,
        )
        self.graph_roles: frozenset[str] = self.engine.graph_roles
        self._open_files()
        self._description = describe(
            self.bundle,
            self.forms,
            provider=self.provider,
            precision=precision,
            graph_roles=self.graph_roles,
            texts=self.tokenizer is not None,
        )
        self.bundle.release()
        self.self_test = SelfTest(self.bundle, self.engine, self.provider, precision)
        alive = weakref.proxy(self)  # a cycle would hold both until the garbage collector runs
        # A bound method keeps the object alive.
        self.engine.faults.probe = lambda: alive.probe()  # noqa: PLW0108
        if self_test:
            self.self_test.run(short=True)
        self._shape_batches(batch_tokens, round_lengths)

    def _open_files(self) -> None:
        """Open the bundle's files other than graphs: ranges, weights of terms, the tokenizer."""
        manifest = self.bundle.manifest
        self.prompts = Prompts(manifest.prompts, manifest.default_prompt)
        width, file, terms = (
            manifest.architecture.pooled_dim,
            manifest.ranges,
            manifest.query_terms,
        )
        self.forms = AvailableForms(
            width,
            manifest.normalize,
            {} if file is None else load_ranges(self.bundle.files[file], width),
            None
            if terms is None
            else load_query_terms(self.bundle.files[terms], manifest.architecture.vocab_size),
        )
        self.tokenizer: Tokenizer | None = None
        if manifest.tokenizer is not None:
            self.tokenizer = open_tokenizer(
                self.bundle.files[manifest.tokenizer],
                manifest.max_length,
                vocabulary=manifest.architecture.vocab_size,
                segments=manifest.architecture.segments,
                pairs="pair" in manifest.accepts,
                include_prompt=manifest.include_prompt,
                pair_template=manifest.pair_template,
                prompts_pairs=manifest.task in ("rerank", "classify"),
            )
        self.spelling: Spelling | None = None
        if self.tokenizer is not None and manifest.architecture.terms:
            self.spelling = Spelling(self.tokenizer, manifest.architecture.vocab_size)

    def _shape_batches(self, tokens: int | None, multiple: int | None) -> None:
        """Set the shape of batches: as wanted, else the fastest one here."""
        rounding, streams = self.engine.rounding, self.workers.streams
        if multiple is None and self.provider == "cuda":
            multiple = CUDA_MULTIPLE
        shapes = choices(tokens, multiple, rounding.multiple)
        shape = shapes[0]
        if self.provider == "openvino" and len(shapes) > 1:
            facts = {
                "headlight": __version__,
                "shapes": shapes,
                "precision": self.precision,
                "processor": processor(),
                "workers": dataclasses.astuple(self.workers),
                "model": dataclasses.asdict(self.bundle.manifest.architecture),
                "longest": rounding.most,
                "openvino": version_of("openvino"),
            }
            with contextlib.suppress(HeadlightError):  # too little memory for full batches
                shape = kept(
                    facts,
                    shapes,
                    lambda: fastest(self.engine.run, shapes, rounding.most, streams),
                )
        self.engine.batch_tokens = shape.tokens
        self.engine.rounding = rounding._replace(multiple=shape.multiple)

    def check_golden(self) -> None:
        """Run all golden inputs; see SelfTest.run.

        Raises:
            BundleError: this machine's numbers differ from PyTorch's.
        """
        self.self_test.run()

    def probe(self) -> None:
        """Repeat a short self-test; see SelfTest.probe.

        Raises:
            BundleError: the vectors are no longer within the tolerance from PyTorch's.
        """
        self.self_test.probe()

    def check_ids(
        self,
        ids: Sequence[int],
        segments: Sequence[int] = (),
        *,
        with_info: bool = False,
        rules: RoleRules = NO_RULES,
    ) -> Tokenized:
        """Check token ids from a caller; a GPU would not check them.

        Args:
            ids: 1 to max_length.
            segments: one for each id, or none for all 0.
            with_info: also return the tokens.
            rules: of their role; they have its marker.

        Raises:
            InvalidInput: there are no ids, there are too many, or one is not in the vocabulary.
                `field` is empty, or "segments" if these do not fit; the caller completes it.
        """
        array, types = checked_ids(self.bundle.manifest, ids, segments)
        spell = self.tokenizer.pieces if self.tokenizer else no_pieces
        info = list_of_ids(array, types, spell(array.tolist())) if with_info else None
        return in_role(Tokenized(array, len(array), info, types), rules, spell, marked=True)

    def rules(self, role: InputRole | None) -> RoleRules:
        """Return the rules of a role; None: of a document."""
        return self.bundle.manifest.roles.get(role or "document", NO_RULES)

    def select(self, *, pooled: Any = True, **specs: Any) -> Selection:
        """Resolve the requested outputs against this model.

        Args:
            pooled, specs: the spec of each output by its name; True: as a request that only names
                it; False or None: not requested.

        Raises:
            InvalidInput: naming the field and the remedy.
        """
        choices: dict[str, Any] = {"pooled": False}
        for name, spec in {"pooled": pooled, **specs}.items():
            if spec is None or spec is False:
                continue
            output = OUTPUTS[name]
            if output.role == "attend":
                self._check_attends(f"outputs.{name}", name)
            resolved = spec is True or output.choose(spec, self._description, self.forms)
            if output.behind_pooling and not self.engine.head:
                self._check_dense(f"outputs.{name}")
            choices[name] = resolved
        selection = Selection(**choices)
        for name in selection:
            if name in GRAPH_ROLES and name not in self.bundle.manifest.outputs:
                raise self._gives_no(f"outputs.{name}", name)
        if selection.any_length and len(selection) > 1:
            raise InvalidInput(f"{SPANS}.beyond_max_length", Reason.ALONE_WITH_TOKENS)
        return selection

    def _check_attends(self, field: str, value: object | None) -> None:
        if value is None or "attend" in self.graph_roles:
            return
        if not self.bundle.manifest.attends:
            raise self._gives_no(field, field.removeprefix("outputs."))
        raise InvalidInput(field, Reason.OPENED_WITHOUT)

    def _check_dense(self, field: str) -> None:
        layers = self.bundle.manifest.dense_layers
        if layers != 0:
            raise InvalidInput(
                field, Reason.UNKNOWN_DENSE if layers is None else Reason.NO_HEAD_GRAPH
            )

    def _gives_no(self, field: str, what: str) -> InvalidInput:
        names = ", ".join(self._description.outputs)
        return InvalidInput(field, Reason.GIVES_NO, what=what, names=names)

    def encode_items(
        self,
        inputs: Iterable[Input],
        *,
        prompt_name: str | None = None,
        prompt: str | None = None,
        head_mask: ArrayLike | None = None,
        truncation: Truncation = "refuse",
        special_tokens: SpecialTokens = "parse",
        empty_texts: EmptyTexts = "refuse",
        **outputs: Any,
    ) -> list[ItemResult]:
        """Return any outputs of each input as the engine's arrays, in one run.

        Args:
            inputs: any number of texts, pairs of texts, or sequences of ids.
            prompt_name: a name in `prompts`, whose text goes before each input; None: the model's
                default, if it has one.
            prompt: the prompt's text; empty: none.
            head_mask: [L, H] from 0 to 1, a factor for each head's contribution: 0 removes the
                head. None: ones.
            truncation: the treatment of a text of more than max_length tokens.
            special_tokens, empty_texts: see `Tokenizer.encode`.
            outputs: see `select`.

        Returns:
            One result per input, in their order.

        Raises:
            InvalidInput: an input cannot be encoded (`field` begins with "inputs[i]"), or does not
                have the outputs.
            EngineError, DeviceFull: see Engine.run.
        """
        prepared = self.prepare(
            inputs,
            self.select(**outputs),
            prompt_name=prompt_name,
            prompt=prompt,
            head_mask=head_mask,
            truncation=truncation,
            special_tokens=special_tokens,
            empty_texts=empty_texts,
        )
        return self.engine.run_in_batches([each.item for each in prepared])

    def prepare(
        self,
        inputs: Iterable[Input],
        selection: Selection,
        *,
        with_info: bool = False,
        prompt_name: str | None = None,
        prompt: str | None = None,
        head_mask: ArrayLike | None = None,
        truncation: Truncation = "refuse",
        special_tokens: SpecialTokens = "parse",
        empty_texts: EmptyTexts = "refuse",
        limit: bool = True,
        role: InputRole | None = None,
    ) -> list[Prepared]:
        """Tokenise inputs, without running the model.

        Args:
            inputs, prompt_name, prompt, head_mask, truncation, special_tokens, empty_texts: see
                `encode_items`.
            selection: the requested outputs.
            with_info: also return the tokens.
            limit: False to accept texts of any length.
            role: see `Encoder.encode`.

        Raises:
            InvalidInput: as `encode_items`.
        """
        check_name("special_tokens", special_tokens, SPECIAL_TOKENS)
        check_name("empty_texts", empty_texts, EMPTY_TEXTS)
        before = self.prompts.choose(prompt_name, prompt, role)
        self._check_attends("head_mask", head_mask)
        shape = self.bundle.manifest.architecture
        mask = (
            None if head_mask is None else checked_head_mask(head_mask, shape.layers, shape.heads)
        )
        options = {
            "truncation": truncation,
            "limit": limit,
            "with_info": with_info or selection.needs_tokens,
            "special_tokens": special_tokens,
            "empty_texts": empty_texts,
            "rules": self.rules(role),
        }
        tokenized = [self._tokenize(at, each, before, options) for at, each in enumerate(inputs)]
        return [Prepared(each, self.item(each, selection, mask)) for each in tokenized]

    def item(
        self, tokenized: Tokenized, selection: Selection, head_mask: Floats | None = None
    ) -> EncodeItem:
        """Return the engine's item for one input.

        Raises:
            InvalidInput: the input lacks the tokens that the selection names.
        """
        return item_of(tokenized, selection, self.bundle.manifest.pooling, head_mask)

    def check_prompt(self, prompt: Prompt, kind: str) -> None:
        """Check that no prompt was requested for an input that takes none.

        Raises:
            InvalidInput: a prompt was requested; the field is empty.
        """
        if self.tokenizer is None or not self.tokenizer.takes_prompt(kind):
            prompt.check_kind("pairs" if kind == "pair" else kind)

    def check_pair_prompt(self, name: str | None, text: str | None) -> None:
        prompt = self.prompts.choose(name, text)
        with renamed({(): ("prompt_text" if name is None else "prompt_name",)}):
            self.check_prompt(prompt, "pair")

    def warm_up(self, lengths: Iterable[int]) -> None:
        """Run every loaded graph at each length, on each worker and on all threads.

        Otherwise the first requests would wait for the slower first runs.
        """
        self.engine.warm_up(lengths)

    def _tokenize(
        self, index: int, value: Input, prompt: Prompt, options: Mapping[str, Any]
    ) -> Tokenized:
        kind = "text" if isinstance(value, str) else "pair" if is_pair(value) else "ids"
        accepts = self._description.accepts
        with renamed({(): ("inputs", index, kind)}):
            if kind not in accepts:
                raise not_taken("", accepts)
            self.check_prompt(prompt, kind)
            if kind == "ids":
                return self.check_ids(
                    cast(Sequence[int], value),
                    with_info=options["with_info"],
                    rules=options["rules"],
                )
            if self.tokenizer is None:
                raise RuntimeError("text was accepted without a tokenizer. This is a bug.")
            texts = (value,) if isinstance(value, str) else cast("tuple[str, str]", value)
            return self.tokenizer.encode(*texts, prompt=prompt.text, **options)

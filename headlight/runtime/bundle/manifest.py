"""The bundle's manifest.json as plain data, checked field by field.

docs/bundle.md describes the format.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Any

from headlight.description import Parity, Quality
from headlight.errors import BundleError
from headlight.outputs.registry import GRAPH_ROLES, MEASURED, OUTPUTS
from headlight.runtime.bundle.manifest_fields import MANIFEST, Fields
from headlight.runtime.bundle.pair_template import LONGEST_TEMPLATE, PairTemplate
from headlight.runtime.bundle.prompts import LONGEST_PROMPT
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.values import Architecture
from headlight.spec import ACTIVATIONS, INPUT_ROLES, POOLING_MODES

# Earlier formats. 1: the graph `attend` gave only whole maps of attention. 2: graphs normalised
# pooled vectors, and there were no prompts. 3: no task, labels or outputs.
FORMAT_VERSION = 4
PREVIOUS_VERSION = 3  # which is read, too
# "rerank" and "classify" are of models that score, "rerank" by one number; "sparse" is of models
# that weight the terms of their vocabulary, "multi_vector" of those with a vector for each token.
TASKS = ("embed", "rerank", "classify", "sparse", "multi_vector")
# Far beyond any model, and small enough that sizes computed from them fit in 64 bits.
MOST_LAYERS = MOST_HEADS = 1 << 10
WIDEST = LONGEST = 1 << 20
MOST_IDS = MOST_TEXTS = (1 << 31) - 1
LARGEST_LIMIT = 1 << 22  # characters that the longest model needs
MOST_PROMPTS = 1 << 10
MOST_PROMPT_CHARACTERS = 1 << 18  # of all prompts together: GetModel returns them in one message
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Graph:
    """One ONNX file: its role, form and precision, and the providers that it was made for."""

    role: str  # "embed", "attend" or "head"
    form: str  # of attention: "decomposed" (MatMul, Add, Softmax, MatMul) or "fused"
    precision: str
    file: str
    weights: tuple[str, ...]  # external data files it refers to
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    providers: tuple[str, ...]


@dataclasses.dataclass(frozen=True, kw_only=True)
class Tolerance:
    """Largest acceptable distance from PyTorch, by output, on one provider in one precision."""

    provider: str  # "*": any provider that the exporter could not try
    precision: str
    limits: Mapping[str, float]  # absolute, or by row: `headlight.outputs.output.Output.by_row`


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileEntry:
    """Digest and size of one file of the bundle."""

    sha256: str
    bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerLimit:
    """The longest text that a tokenizer reads at a bounded cost; `tokenizer_probe` measures it."""

    max_characters: int
    worst: str  # the kind of text whose cost grows fastest, as tokenizer_probe names it; or "none"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextSet:
    """Texts that the exporter calibrated int8 on, searched layers by, or measured quality on."""

    use: str  # "calibration", "search" or "report"
    texts: str  # their name
    count: int
    sha256: str  # of the texts, one a line


@dataclasses.dataclass(frozen=True, kw_only=True)
class Manifest:
    """A bundle's description. `files` maps every file except the manifest to its digest."""

    name: str
    version: str
    architecture: Architecture
    trained_length: int  # tokens
    max_length: int  # tokens
    pooling: str  # one of POOLING_MODES
    normalize: bool
    accepts: tuple[str, ...]  # "text", "pair", "ids"
    graphs: tuple[Graph, ...]
    tolerances: tuple[Tolerance, ...]
    parity: tuple[Parity, ...]  # the worst of everything that parity.json lists
    golden: str
    tokenizer: str | None
    files: Mapping[str, FileEntry]
    source: Mapping[str, Any]  # its origin; informative
    outputs: tuple[str, ...]  # that its graphs give; those not in GRAPH_ROLES are not served
    task: str = "embed"  # one of TASKS
    labels: tuple[str, ...] = ()  # of a model that scores, in the order of its scores
    activation: str = ""  # one of ACTIVATIONS, from logits to scores; empty: the model gives none
    # Put before texts, by name.
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str | None = None  # the name of one, for callers that name none
    include_prompt: bool = True  # whether the tokens of a prompt count in pooling
    pair_template: PairTemplate | None = None  # None: pairs are read as the tokenizer does
    # How queries and documents are read, by role; empty: as any text.
    roles: Mapping[str, RoleRules] = dataclasses.field(default_factory=dict)
    dimensions: tuple[int, ...] = ()  # widths that shortened vectors were trained for
    similarity: str | None = None  # one of SIMILARITIES; informative
    ranges: str | None = None  # file of the ranges of int8
    query_terms: str | None = None  # file of the weights of terms in queries
    quality: tuple[Quality, ...] = ()  # of each precision, if there is one besides fp32
    tokenizer_limit: TokenizerLimit | None = None  # None: no tokenizer, or an older export
    text_sets: tuple[TextSet, ...] = ()  # empty: no real texts used, or an older export
    dense_layers: int | None = None  # behind pooling, see graph "head"; None: an older export
    format_version: int = FORMAT_VERSION

    @property
    def variants(self) -> tuple[tuple[str, str], ...]:
        """The (provider, precision) pairs that its graphs were made for, sorted."""
        return tuple(
            sorted(
                {
                    (provider, graph.precision)
                    for graph in self.graphs
                    for provider in graph.providers
                }
            )
        )

    @property
    def attends(self) -> bool:
        """Whether an output needs the graph `attend`."""
        return any(GRAPH_ROLES.get(name) == "attend" for name in self.outputs)

    def graph(self, role: str, provider: str, precision: str) -> Graph:
        """Return the graph of a role for a provider and precision.

        Raises:
            BundleError: there is none; the message lists the existing ones.
        """
        for graph in self.graphs:
            if graph.role == role and graph.precision == precision and provider in graph.providers:
                return graph
        raise BundleError(
            f"no {role} graph for {provider}/{precision}; "
            f"the bundle has {', '.join(map('/'.join, self.variants))}"
        )

    def fused(self, provider: str, precision: str) -> bool:
        """Return whether vectors are computed without maps of length x length."""
        return any(
            (graph.role, graph.form, graph.precision) == ("embed", "fused", precision)
            and provider in graph.providers
            for graph in self.graphs
        )

    def head(self, provider: str) -> Graph | None:
        """Return the graph of the layers behind pooling; None: the bundle has none.

        It computes in fp32, whatever the precision of the other graphs.
        """
        return next(
            (each for each in self.graphs if each.role == "head" and provider in each.providers),
            None,
        )

    def tolerance(self, provider: str, precision: str) -> Tolerance:
        """Return the tolerance of the pair, else that of the precision on any provider.

        Raises:
            BundleError: neither is declared.
        """
        for name in (provider, "*"):
            for tolerance in self.tolerances:
                if (tolerance.provider, tolerance.precision) == (name, precision):
                    return tolerance
        raise BundleError(f"no tolerance declared for precision {precision}", MANIFEST)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that `parse` reads."""
        values = dataclasses.asdict(self)
        flat = [each | each.pop("limits") for each in values["tolerances"]]
        return values | {"tolerances": flat}

    @classmethod
    def parse(cls, values: object) -> Manifest:
        """Read a parsed manifest.json.

        Raises:
            BundleError: naming the field at fault and the expected value.
        """
        top = Fields(values)
        version = _readable_version(top)
        shape = top.child("architecture")
        architecture = Architecture(
            positions=shape.take("positions", str),
            layers=shape.count("layers", MOST_LAYERS),
            heads=shape.count("heads", MOST_HEADS),
            dim=shape.count("dim", WIDEST),
            pooled_dim=shape.count("pooled_dim", WIDEST),
            vocab_size=shape.count("vocab_size", MOST_IDS),
            segments=shape.count("segments", MOST_IDS, least=0),
            labels=shape.optional_count("labels", WIDEST),
            token_labels=shape.values.get("labels", 0) and shape.take("token_labels", bool),
            causal="causal" in shape.values and shape.take("causal", bool),
            terms="terms" in shape.values and shape.take("terms", bool),
            token_terms="token_terms" in shape.values and shape.take("token_terms", bool),
            multi_vector_dim=shape.optional_count("multi_vector_dim", WIDEST),
        )
        prompts = _prompts(top.child("prompts"))
        graphs = tuple(fields.record(Graph) for fields in top.children("graphs"))
        dense_layers = (
            None
            if top.values.get("dense_layers") is None
            else top.count("dense_layers", MOST_LAYERS, least=0)
        )
        given = _outputs_of({graph.role for graph in graphs}, dense_layers, architecture)
        if version == PREVIOUS_VERSION:
            task, labels, outputs = "embed", tuple[str, ...](), given
        else:
            task, labels = _task(top, architecture), _labels(top, architecture)
            outputs = _outputs(top, given)
        return cls(
            name=top.take("name", str),
            version=top.take("version", str),
            architecture=architecture,
            trained_length=top.count("trained_length", LONGEST),
            max_length=top.count("max_length", LONGEST),
            pooling=top.one_of("pooling", POOLING_MODES),
            normalize=top.take("normalize", bool),
            accepts=top.strings("accepts"),
            graphs=graphs,
            tolerances=tuple(map(_tolerance, top.children("tolerances"))),
            parity=tuple(fields.record(Parity) for fields in top.children("parity")),
            golden=top.take("golden", str),
            tokenizer=top.text_or_null("tokenizer"),
            files=_files(top.child("files")),
            source=top.take("source", dict),
            outputs=outputs,
            task=task,
            labels=labels,
            activation=top.one_of("activation", ACTIVATIONS) if architecture.labels else "",
            prompts=prompts,
            default_prompt=top.one_of_or_null("default_prompt", prompts),
            include_prompt=top.take("include_prompt", bool),
            pair_template=_pair_template(top),
            roles=_roles(top, architecture),
            dimensions=top.counts("dimensions", architecture.pooled_dim),
            similarity=top.one_of_or_null("similarity", SIMILARITIES),
            ranges=top.text_or_null("ranges"),
            query_terms=top.text_or_null("query_terms") if "query_terms" in top.values else None,
            # `least` is below -1, because rounding may take a cosine a little beyond it.
            quality=tuple(
                fields.record(Quality, {"count": MOST_TEXTS}, least=-2)
                for fields in top.children("quality")
            ),
            tokenizer_limit=None
            if top.values.get("tokenizer_limit") is None
            else top.child("tokenizer_limit").record(
                TokenizerLimit, {"max_characters": LARGEST_LIMIT}
            ),
            text_sets=tuple(
                fields.record(TextSet, {"count": MOST_TEXTS})
                for fields in (top.children("text_sets") if "text_sets" in top.values else ())
            ),
            dense_layers=dense_layers,
            format_version=version,
        )


def _readable_version(top: Fields) -> int:
    version = top.take("format_version", int)
    if version not in (PREVIOUS_VERSION, FORMAT_VERSION):
        remedy = "export again" if version < PREVIOUS_VERSION else "update Headlight"
        raise BundleError(
            f"format_version is {version}; this runtime reads {PREVIOUS_VERSION} and "
            f"{FORMAT_VERSION}: {remedy}",
            MANIFEST,
        )
    return version


def _task(top: Fields, architecture: Architecture) -> str:
    task: str = top.take("task", str)
    if task not in TASKS:
        raise BundleError(
            f"task is {task!a:.60}; this runtime serves {', '.join(TASKS)}: update Headlight",
            MANIFEST,
        )
    labels, of_tokens = architecture.labels, architecture.token_labels
    if task == "rerank" and (labels != 1 or of_tokens):
        kind = "of tokens" if of_tokens else "of texts"
        raise BundleError(
            f"task is rerank, which takes one label of texts; architecture has {labels} {kind}",
            MANIFEST,
        )
    if task == "classify" and not labels:
        raise BundleError("task is classify, and architecture.labels is 0", MANIFEST)
    return task


def _labels(top: Fields, architecture: Architecture) -> tuple[str, ...]:
    labels = top.strings("labels")
    if len(labels) != architecture.labels:
        raise BundleError(
            f"labels has {len(labels)} names; architecture.labels says {architecture.labels}",
            MANIFEST,
        )
    return labels


def _outputs_of(
    roles: Collection[str], dense_layers: int | None, architecture: Architecture
) -> tuple[str, ...]:
    """Return the outputs that graphs of these roles give."""
    dense = dense_layers == 0 or "head" in roles
    return tuple(
        name
        for name, role in GRAPH_ROLES.items()
        if role in roles
        and (
            name not in OUTPUTS
            or (
                OUTPUTS[name].given_by(architecture) and (dense or not OUTPUTS[name].behind_pooling)
            )
        )
    )


def _outputs(top: Fields, given: Collection[str]) -> tuple[str, ...]:
    """Return the declared outputs. A later version may have declared some that are not known."""
    outputs = top.strings("outputs")
    for name in outputs:
        if name in GRAPH_ROLES and name not in given:
            raise BundleError(f"outputs has {name}, which none of the graphs gives", MANIFEST)
    return outputs


def _tolerance(fields: Fields) -> Tolerance:
    # Earlier exports have no tolerance of outputs that came later, and none of these outputs.
    limits = {name: fields.number(name) for name in MEASURED if name in fields.values}
    return Tolerance(
        provider=fields.take("provider", str),
        precision=fields.take("precision", str),
        limits=limits,
    )


def _prompts(fields: Fields) -> dict[str, str]:
    if len(fields.values) > MOST_PROMPTS:
        raise BundleError(
            f"prompts has {len(fields.values)} entries; expected at most {MOST_PROMPTS}", MANIFEST
        )
    for name in fields.values:
        fields.check_text(f"{name!a:.60}", name)
    prompts = {name: fields.prose(name, LONGEST_PROMPT) for name in fields.values}
    if sum(map(len, prompts.values())) > MOST_PROMPT_CHARACTERS:
        raise BundleError(
            f"prompts have more than {MOST_PROMPT_CHARACTERS} characters together", MANIFEST
        )
    return prompts


def _pair_template(top: Fields) -> PairTemplate | None:
    if top.values.get("pair_template") is None:
        return None
    fields = top.child("pair_template")
    parts = [fields.proses(name, LONGEST_TEMPLATE) for name in ("plain", "prompted")]
    try:
        return PairTemplate(*parts)
    except ValueError as error:
        raise BundleError(str(error), MANIFEST) from None


def _roles(top: Fields, architecture: Architecture) -> dict[str, RoleRules]:
    rules = top.child("roles") if "roles" in top.values else Fields({})
    if unknown := sorted(set(rules.values) - set(INPUT_ROLES)):
        raise BundleError(
            f"roles has {unknown[0]!a:.60}; expected {', '.join(INPUT_ROLES)}", MANIFEST
        )
    longest, highest = top.count("max_length", LONGEST), architecture.vocab_size - 1
    roles = {name: _role(rules.child(name), highest, longest) for name in rules.values}
    if top.values.get("query_terms") is not None:
        whole = architecture.terms and not architecture.token_terms
        if not whole or list(roles) != ["query"] or not roles["query"].skiplist:
            raise BundleError(
                "query_terms need a head for terms, and rules of queries alone, with a skiplist",
                MANIFEST,
            )
    return roles


def _role(fields: Fields, highest: int, longest: int) -> RoleRules:
    """Read the rules of one role; `longest`: tokens that the model takes."""
    rules = RoleRules(
        max_length=fields.count("max_length", longest, least=0),
        marker=fields.count_or_null("marker", highest),
        expansion=fields.count_or_null("expansion", highest),
        expanded_length=fields.count("expanded_length", LONGEST, least=0),
        attend_to_expansion=fields.take("attend_to_expansion", bool),
        skiplist=fields.counts("skiplist", highest, least=0),
    )
    most = rules.max_length or longest
    if rules.expanded_length > most or (rules.expansion is None) != (rules.expanded_length == 0):
        raise BundleError(
            f"{fields.path}expanded_length is {rules.expanded_length}; expected up to {most} with "
            "an expansion, else 0",
            MANIFEST,
        )
    if rules.marker is not None and most < 2:
        raise BundleError(f"{fields.path}max_length is {most}; a marker needs 2", MANIFEST)
    return rules


def _files(fields: Fields) -> dict[str, FileEntry]:
    for name in fields.values:
        if not name.isprintable():
            raise BundleError("is not a name that a file can be found by", f"{name!a:.80}")
    return {name: fields.child(name).record(FileEntry) for name in fields.values}

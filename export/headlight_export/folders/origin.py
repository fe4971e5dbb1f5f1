"""Source of an export: our own checkpoint, or another folder converted to our encoder.

Other folders are those of Hugging Face or sentence-transformers.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import tokenizers
from safetensors import safe_open
from torch import Tensor

from headlight.runtime.bundle.pair_template import PairTemplate
from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.values import Floats
from headlight_export.families import convert, encoder_config, family_of, is_headlight
from headlight_export.families.heads import (
    DECODERS,
    OF_TERMS,
    OF_TEXTS,
    read_head,
    read_term_head,
    read_token_head,
)
from headlight_export.families.llama import bidirectional_by_name
from headlight_export.families.source import COMPUTED, Config
from headlight_export.folders import bge_m3
from headlight_export.folders.labels import activation_of, labels_of
from headlight_export.folders.model_folder import Refused, check_readable, read_config, read_tensors
from headlight_export.folders.multi_vector_folder import PROJECTION, role_rules, take_projection
from headlight_export.folders.pair_template import (
    NEEDED,
    NoPlaces,
    template_from_file,
    template_from_folder,
)
from headlight_export.folders.pooling_choice import with_pooling
from headlight_export.folders.router_folder import query_rules, read_query_terms
from headlight_export.folders.sentence_folder import MODULES, DenseLayer, Recipe, read_recipe
from headlight_export.folders.task import (
    GENERATES,
    OF_TOKENS,
    STANFORD,
    matches_tokens,
    other_use,
    scored,
    task_of,
    weights_terms,
)
from headlight_export.tokenizers.tokenizer_file import tokenizer_json
from headlight_export.writer.draft import sha256
from headlight_model.checkpoint import (
    CONFIG,
    ENCODER_PREFIX,
    TOKENIZER,
    TRAINING,
    WEIGHTS,
    load_checkpoint,
    printable,
)
from headlight_model.config import (
    Dense,
    EncoderConfig,
    MultiVectorHead,
    ScoreHead,
    TermHead,
    TokenWeightHead,
)
from headlight_model.encoder import Encoder
from headlight_model.positions.position_schemes import Learned

OURS = "headlight"  # as a family
MOST_TOLD = 10  # modules, by their names
SCORE_TOKENS = ("yes", "no")  # as in sentence-transformers


class FolderHead(NamedTuple):
    """A head for scores, read from a folder: our config, its tensors, and what it reads."""

    config: ScoreHead
    state: Mapping[str, Tensor]
    pooling: str


class FolderUse(NamedTuple):
    """What a folder's own heads give.

    Attributes:
        scores: class of the model whose head gives scores; None: none does.
        terms: whether one weights the terms of the vocabulary.
        matches: whether each token has a vector, to be matched one by one.
    """

    scores: str | None
    terms: bool
    matches: bool


class FolderTerms(NamedTuple):
    """A head for the terms of the vocabulary, read from a folder: our config, and its tensors."""

    config: TermHead
    state: Mapping[str, Tensor]


@dataclasses.dataclass(frozen=True, eq=False)
class Origin:
    """The parts of a folder that go into a bundle.

    Attributes:
        encoder: float32, in evaluation mode, with pooling and all steps after it.
        tokenizer: the text of tokenizer.json; None: token ids alone.
        family: "headlight", or a key of `headlight_export.families.FAMILIES`.
        weights_sha256: hex, of the files of weights.
        recipe: prompts, dimensions and the like.
        about: a line for the user: the length and pooling, their source, and the weights left out.
        task: of the bundle.
        why: what of the folder decides the task, for the user; may be empty.
        score_tokens: ids of a decoder that scores by the tokens that it would generate.
        pair_template: of pairs; None: they are read as the tokenizer does.
        roles: how queries and documents are read, by role; empty: as any text.
        query_terms: weight of each term in queries; None: the model computes it.
        folder: that was read.
        hub: model, revision and commit, if it came from the Hub.
    """

    encoder: Encoder
    tokenizer: str | None
    family: str
    weights_sha256: str
    recipe: Recipe
    about: str = ""
    task: str = "embed"
    why: str = ""
    score_tokens: tuple[int, ...] = ()
    pair_template: PairTemplate | None = None
    roles: Mapping[str, RoleRules] = dataclasses.field(default_factory=dict)
    query_terms: Floats | None = None
    folder: Path = Path()
    hub: Mapping[str, str] = dataclasses.field(default_factory=dict)


def read_origin(
    folder: Path,
    *,
    pooling: str | None = None,
    task: str | None = None,
    max_length: int | None = None,
    ids_only: bool = False,
    pair_template: Path | None = None,
    score_tokens: Sequence[str] = (),
) -> Origin:
    """Read a folder.

    Args:
        folder: a checkpoint of `headlight_model.checkpoint`, or one of Hugging Face or
            sentence-transformers.
        pooling: for folders without pooling; a key of `headlight_model.layers.pooling.POOLING`.
        task: one of TASKS; None: as the folder says.
        max_length: tokens to be accepted; None: the folder's limit, up to the trained length. It
            may be larger if the positions allow it. If queries have a limit of their own, it is for
            documents.
        ids_only: serve a folder without a tokenizer, for callers that send token ids.
        pair_template: file of the text around pairs; None: the folder's, if the model needs one.
        score_tokens: one token or two of a decoder that scores by them; empty: the folder's, else
            SCORE_TOKENS.

    Raises:
        FileNotFoundError, ValueError: the checkpoint is invalid or cannot be served; one line, with
            the remedy.
    """
    check_readable(folder)
    recipe = read_recipe(folder)
    config = read_config(recipe.transformer)
    if is_headlight(config):
        given = (pooling, task, max_length, ids_only or None, pair_template, score_tokens or None)
        if any(each is not None for each in given):
            raise Refused(
                "--pooling, --task, --max-length, --ids-only, --pair-template and --score-tokens "
                "are for folders of Hugging Face and sentence-transformers; "
                f"{folder} is a checkpoint of ours, and its config.json sets them"
            )
        return _read_headlight(folder)
    if max_length is not None and max_length < 1:
        raise Refused(
            f"--max-length {max_length} leaves no token; give 1 or more, "
            "or leave it out for what the folder says"
        )
    origin = _read_foreign(
        recipe,
        config,
        pooling,
        task,
        max_length,
        ids_only=ids_only,
        pair_template=pair_template,
        score_tokens=score_tokens,
    )
    return dataclasses.replace(origin, folder=folder)


def check_settings(folder: Path, *, pooling: str | None = None, task: str | None = None) -> str:
    """Check what the settings of a folder say of its encoder, before its weights are there.

    The arguments are those of `read_origin`. Returns the family.

    Raises:
        Refused: as there.
    """
    recipe = read_recipe(folder)
    config = read_config(recipe.transformer)
    if is_headlight(config):
        return OURS
    family = family_of(config)
    use = folder_use(recipe, family, config, pooling, task)
    built = encoder_config(family, config)
    if not any(use):
        with_pooling(recipe, config, built, pooling, for_vectors=task == "embed")
    return family


def folder_use(
    recipe: Recipe, family: str, config: Mapping[str, Any], pooling: str | None, task: str | None
) -> FolderUse:
    """Return what heads of the folder give; the arguments are those of `_read_foreign`.

    Raises:
        Refused: such a head is not read for the family, or as `scored` and the like.
    """
    pools = recipe.pooling is not None
    use = FolderUse(
        scored(recipe.kind, config, pooling, task, pools=pools),
        weights_terms(recipe.kind, config, pooling, task),
        matches_tokens(recipe.kind, pooling, task),
    )
    if use.scores is not None and family not in OF_TEXTS:
        what = f"{printable(use.scores)} gives scores, and heads are"
    elif use.terms and family not in OF_TERMS:
        what = "heads for the terms of a vocabulary are"
    else:
        return use
    raise Refused(
        f"{what} not read for {family} yet; if its vectors are wanted, export with --task embed "
        "and --pooling mean, cls or last"
    )


def _read_foreign(
    recipe: Recipe,
    config: dict[str, Any],
    pooling: str | None,
    task: str | None,
    max_length: int | None,
    *,
    ids_only: bool,
    pair_template: Path | None,
    score_tokens: Sequence[str],
) -> Origin:
    """Read a folder of Hugging Face or sentence-transformers; the arguments are as given."""
    family = family_of(config)
    heads = bge_m3.read_heads(recipe.transformer, family, task)
    scores, weighs, matches = folder_use(recipe, family, config, pooling, task)
    tensors = read_tensors(recipe.transformer)
    pools, fields = recipe.pooling is not None, Config(config)
    recipe = _with_projection(recipe, config, tensors, pooling, matches=matches)
    encoder = convert(family, fields, tensors, max_length)
    tokenizer = None if ids_only else _read_tokenizer(recipe)
    pooling_source, head, rules = (
        _pooling_source(recipe, fields, pooling),
        None,
        dict[str, RoleRules](),
    )
    if heads is not None:
        pooling_source = pooling_source if pools else f"as {bge_m3.NAME} does"
        recipe, rules = bge_m3.with_heads(recipe, heads, encoder.config.dim, tokenizer)
    tokens = tuple[int, ...]()
    if scores is not None and scores.endswith(GENERATES):
        tokens = _score_tokens(recipe, config, tokenizer, score_tokens)
    elif score_tokens:
        raise Refused("--score-tokens is for decoders that rerank by two tokens; leave it out")
    terms = None
    if weighs:
        terms = _read_terms(family, config, tensors, encoder, recipe)
        recipe, pooling_source = dataclasses.replace(recipe, pooling="mean"), "of no output"
    elif matches:
        recipe, pooling_source = dataclasses.replace(recipe, pooling="mean"), "of no output"
    elif scores is None:
        vectors = task == "embed"
        recipe = with_pooling(recipe, config, encoder.config, pooling, for_vectors=vectors)
    else:
        head = _read_head(family, scores, config, tensors, encoder, recipe, tokens)
        recipe = dataclasses.replace(recipe, pooling=head.pooling)
        pooling_source = f"what the head of {printable(scores)} reads"
    finished = _finish(encoder, recipe, max_length, head, terms)
    left = [
        name
        for name, tensor in tensors.items()
        if tensor.is_floating_point() and not name.endswith(COMPUTED)
    ]
    purpose = task_of(finished.config, task)
    template, source = _template(
        recipe,
        finished.config,
        purpose,
        tokenizer,
        pair_template,
        decodes=family in DECODERS,
    )
    roles = rules or _roles(recipe, finished.config, tokenizer, max_length)
    about = (
        _length(finished.config, recipe, config.get("max_position_embeddings"), max_length),
        _about(finished.config.pooling, pooling_source, left),
        *fields.remarks,
        *([f"pairs are read by {source}"] if source else []),
        *(
            f"a {role} has up to {side.max_length}"
            for role, side in roles.items()
            if side.max_length
        ),
    )
    other = None if pools or terms or matches else other_use(recipe.kind, config)
    return Origin(
        encoder=finished,
        tokenizer=tokenizer,
        family=family,
        weights_sha256=sha256(sorted(recipe.transformer.glob("*.safetensors"))),
        recipe=recipe,
        about="; ".join(about),
        task=purpose,
        why=bge_m3.WHY if heads else _why(scores, other, pooling, head),
        score_tokens=tokens,
        pair_template=template,
        roles=roles,
        query_terms=_query_terms(recipe, finished.config, tokenizer),
    )


def _roles(
    recipe: Recipe, built: EncoderConfig, tokenizer: str | None, requested: int | None
) -> dict[str, RoleRules]:
    """Return how queries and documents are read; `requested`: by --max-length."""
    if recipe.query_terms is not None and built.term_head is not None:
        return {"query": query_rules(tokenizer, built.max_length)}
    return role_rules(recipe.roles, recipe.transformer, tokenizer, built.max_length, requested)


def _query_terms(recipe: Recipe, built: EncoderConfig, tokenizer: str | None) -> Floats | None:
    """Return the weights of terms in queries; None: the model computes them."""
    if recipe.query_terms is None or built.term_head is None or tokenizer is None:
        return None
    return read_query_terms(recipe.query_terms, tokenizer, built.vocab_size)


def _with_projection(
    recipe: Recipe,
    config: Mapping[str, Any],
    tensors: dict[str, Tensor],
    pooling: str | None,
    *,
    matches: bool,
) -> Recipe:
    """Return the recipe with its layers for vectors of tokens, or without if no one `matches` them.

    Stanford's layer is taken out of the encoder's tensors. So is Voyage's, which it applies to
    tokens: without a bias, it may be applied to their mean.

    Raises:
        Refused: `pooling`, or the folder's, takes a maximum, which a projection changes.
    """
    if recipe.kind == STANFORD:
        recipe = dataclasses.replace(recipe, multi_vector=(take_projection(tensors),))
    elif PROJECTION in tensors and bidirectional_by_name(config):
        if "max" in (pooling, recipe.pooling):
            raise Refused(
                f"{PROJECTION} is applied to tokens, so pooling by max cannot be served; "
                "served are mean, cls and last (--pooling, or the folder's)"
            )
        recipe = dataclasses.replace(recipe, dense=(take_projection(tensors), *recipe.dense))
    return recipe if matches else dataclasses.replace(recipe, multi_vector=(), roles={})


def _score_tokens(
    recipe: Recipe, config: Mapping[str, Any], tokenizer: str | None, requested: Sequence[str]
) -> tuple[int, ...]:
    """Return the ids of the tokens that a decoder scores by: requested, the folder's, or usual.

    The folder has them in LogitScore, or where vLLM has them: classifier_from_token of config.json,
    the false token first.
    """
    if recipe.score_tokens and not requested:
        return recipe.score_tokens
    stated = config.get("classifier_from_token")
    listed = [str(each) for each in stated] if isinstance(stated, list) else []
    names = requested or listed[::-1] or SCORE_TOKENS
    if tokenizer is None:
        raise Refused(f"without a tokenizer, the tokens {', '.join(names)} have no ids")
    vocabulary = tokenizers.Tokenizer.from_str(tokenizer)
    known = map(vocabulary.token_to_id, names)
    ids = [number for number in known if number is not None]
    if not 1 <= len(names) <= 2 or len(ids) != len(names):
        raise Refused(
            f"the scores are those of the tokens {', '.join(map(printable, names))}, which must be "
            "one or two of the vocabulary; give --score-tokens, as yes,no"
        )
    return tuple(ids)


def _template(
    recipe: Recipe,
    config: EncoderConfig,
    task: str,
    tokenizer: str | None,
    requested: Path | None,
    *,
    decodes: bool,
) -> tuple[PairTemplate | None, str]:
    """Return the template of pairs and its source: the requested one, or the folder's.

    `decodes`: the family is one of decoders, whose tokenizers have no form of pairs.

    Raises:
        Refused: a decoder reranks and there is none, or the model reads no pairs.
    """
    head = config.score_head
    reads_pairs = tokenizer is not None and head is not None and not head.each_token
    if requested is not None:
        if not reads_pairs:
            raise Refused(
                "--pair-template is for models that score texts, with a tokenizer; leave it out"
            )
        return template_from_file(requested, recipe.transformer), "--pair-template"
    if not reads_pairs or not (decodes or recipe.chat is not None):
        return None, ""
    try:
        template = template_from_folder(recipe.transformer, recipe.chat)
    except NoPlaces:
        if recipe.chat is not None or task == "rerank":
            raise
        return None, ""
    if template is not None:
        return template
    if task == "rerank":
        raise Refused(
            "the model is a decoder that reranks, and the folder has no chat template for a query "
            f"and a document; {NEEDED}"
        )
    return None, ""


def _why(
    scores: str | None, other: str | None, pooling: str | None, folder_head: FolderHead | None
) -> str:
    """Return what decided the task: a head that is kept or left out, or nothing special."""
    head = folder_head and folder_head.config
    if head is not None:
        some = ", ".join(head.labels[:MOST_TOLD])
        more = f" and {len(head.labels) - MOST_TOLD} more" if head.labels[MOST_TOLD:] else ""
        return f"{printable(str(scores))}, labels: {some}{more}; scores: {head.activation}"
    option = "--task embed" if pooling is None else "--pooling"
    return f"{option}; {other}: that head is left out" if other else ""


def _read_head(
    family: str,
    scores: str,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    encoder: Encoder,
    recipe: Recipe,
    tokens: tuple[int, ...],
) -> FolderHead:
    """Return the head for scores of a folder whose model is of the class `scores`."""
    each_token = scores.endswith(OF_TOKENS)
    if tokens:
        source = read_token_head(family, Config(config), tensors, encoder, tokens)
    else:
        source = read_head(family, Config(config), tensors, encoder.config, each_token=each_token)
    count = source.layers[-1].width
    head = ScoreHead(
        layers=source.layers,
        labels=labels_of({} if tokens else config, count),
        activation=activation_of(config, recipe.transformer, count, each_token=each_token),
        each_token=each_token,
    )
    return FolderHead(head, source.state, source.pooling)


def _read_terms(
    family: str,
    config: dict[str, Any],
    tensors: dict[str, Tensor],
    encoder: Encoder,
    recipe: Recipe,
) -> FolderTerms:
    """Return the head for terms of a folder."""
    layers, tied, state = read_term_head(family, Config(config), tensors, encoder)
    pooling, logarithms = recipe.terms or ("max", 1)
    head = TermHead(layers=layers, tied=tied, pooling=pooling, logarithms=logarithms)
    return FolderTerms(head, state)


def _pooling_source(recipe: Recipe, config: Config, requested: str | None) -> str:
    if recipe.pooling is not None:
        return MODULES
    if requested is not None:
        return "--pooling"
    return (
        CONFIG if "pooling" in config.used else "the folder says nothing of it; --pooling chooses"
    )


def _read_tokenizer(recipe: Recipe) -> str:
    """Return the text of tokenizer.json.

    Raises:
        Refused: there is no tokenizer; the message has the option for token ids.
    """
    tokenizer = tokenizer_json(recipe.transformer, lower_case=recipe.lower_case)
    if tokenizer is None:
        raise Refused(
            f"{recipe.transformer} has no tokenizer; save it there with "
            "tokenizer.save_pretrained(...), or export with --ids-only for callers who "
            "send token ids"
        )
    return tokenizer


def _read_headlight(folder: Path) -> Origin:
    encoder = load_checkpoint(folder)
    tokenizer = (
        (folder / TOKENIZER).read_text(encoding="utf-8") if (folder / TOKENIZER).is_file() else None
    )
    recipe = Recipe(
        transformer=folder,
        pooling=encoder.config.pooling,
        normalize=encoder.config.normalize,
        dimensions=_trained_dimensions(folder),
    )
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        # No mapping.
        left = [name for name in file.keys() if not name.startswith(ENCODER_PREFIX)]  # noqa: SIM118
    return Origin(
        encoder=encoder,
        tokenizer=tokenizer,
        family=OURS,
        weights_sha256=sha256([folder / WEIGHTS]),
        recipe=recipe,
        about=_about(encoder.config.pooling, CONFIG, left),
        task=task_of(encoder.config),
    )


def _trained_dimensions(folder: Path) -> tuple[int, ...]:
    """Return the widths of shortened vectors that a training of ours optimised, longest first."""
    path = folder / TRAINING
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    return tuple(sorted(facts.get("recipe", {}).get("widths", ()), reverse=True))


def _length(config: EncoderConfig, recipe: Recipe, rows: Any, requested: int | None) -> str:
    """Return a line on the length of texts, and the folder's length if that is larger.

    `rows` is the size of a position table in config.json; some rows may stand for no position.
    """
    stated, has_table = recipe.max_length or 0, "learned" in config.position_schemes
    if requested is not None:
        why = " (--max-length)"
    elif stated <= config.max_length or (has_table and stated == rows):
        why = ""
    elif has_table:
        why = f" (for more it has no positions; the folder says {stated})"
    else:
        why = f" (what it was trained with; the folder says {stated}: --max-length {stated})"
    return f"length: {config.max_length} tokens{why}"


def _about(pooling: str, pooling_source: str, left: Iterable[str]) -> str:
    """Return the rest of Origin.about. Weights are named by their modules."""
    modules = sorted({name.rpartition(".")[0] or name for name in left})
    some = ", ".join(printable(name) for name in modules[:MOST_TOLD])
    more = f" (and {len(modules) - MOST_TOLD} more)" if modules[MOST_TOLD:] else ""
    dropped = (
        f"weights left out, which vectors do not need: {some}{more}"
        if modules
        else "no weight is left out"
    )
    return f"pooling: {pooling} ({pooling_source}); {dropped}"


def _finish(
    encoder: Encoder,
    recipe: Recipe,
    requested: int | None,
    head: FolderHead | None = None,
    terms: FolderTerms | None = None,
) -> Encoder:
    """Return the encoder with pooling, the steps after it, the head, and the accepted length."""
    config, state = encoder.config, encoder.state_dict()
    longest = requested or min(recipe.max_length or config.max_length, config.max_length)
    if longest > config.max_length:
        raise Refused(
            f"--max-length {longest} is more than the model has positions for; "
            f"it has {config.max_length}"
        )
    for place, module in encoder.named_modules():
        if isinstance(module, Learned):
            state[f"{place}.table.weight"] = module.table.weight[:longest]
    places = {"dense": recipe.dense, "multi_vector_head": recipe.multi_vector}
    for place, layers in places.items():
        for at, layer in enumerate(layers):
            state |= _named(f"{place}.{at}", layer.weight, layer.bias)
    vectors = tuple(map(_dense, recipe.multi_vector))
    if (weights := recipe.token_weights) is not None:
        state |= _named("token_weight_head", weights.weight, weights.bias)
    for each in (head, terms):
        state |= {} if each is None else each.state
    finished = Encoder(
        dataclasses.replace(
            config,
            pooling=recipe.pooling or config.pooling,
            include_prompt=recipe.include_prompt,
            dense=tuple(map(_dense, recipe.dense)),
            normalize=recipe.normalize,
            score_head=None if head is None else head.config,
            term_head=None if terms is None else terms.config,
            multi_vector_head=MultiVectorHead(layers=vectors) if vectors else None,
            token_weight_head=None
            if weights is None
            else TokenWeightHead(skipped=recipe.unweighted),
            trained_length=min(config.trained_length, longest),
            max_length=longest,
        )
    )
    for layer in (*recipe.dense[:1], *recipe.multi_vector[:1]):
        if (have := layer.weight.shape[1]) != config.dim:
            raise Refused(
                f"the first Dense takes vectors of {have} numbers, the model gives {config.dim}; "
                "save the model again"
            )
    finished.load_state_dict(state)
    return finished.eval()


def _dense(layer: DenseLayer) -> Dense:
    return Dense(width=len(layer.weight), bias=layer.bias is not None, activation=layer.activation)


def _named(name: str, weight: Tensor, bias: Tensor | None) -> dict[str, Tensor]:
    return {f"{name}.weight": weight} | ({} if bias is None else {f"{name}.bias": bias})

"""sentence-transformers folder around a Transformer: pooling, dense layers, lengths and prompts.

The rules are those of sentence-transformers 6.2, with old and new spellings of its files. An
unknown setting that would change a vector is refused by name.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headlight_export.folders.max_length import max_length
from headlight_export.folders.model_folder import (
    CONFIG,
    Refused,
    inner_folder,
    read_json,
    read_object,
)
from headlight_export.folders.multi_vector_folder import (
    Spelled,
    is_pylate,
    longest_of,
    rules_of_modules,
    rules_of_pylate,
    rules_of_stanford,
)
from headlight_export.folders.router_folder import ROUTER, ROUTES, is_router, query_folder, routes
from headlight_export.folders.sentence_modules import (
    TOKENS,
    DenseLayer,
    check_names,
    read_chat,
    read_dense,
    read_pooling,
    read_score_tokens,
    read_splade,
    read_transformer_settings,
)
from headlight_export.folders.task import (
    CROSS_ENCODER,
    MULTI_VECTOR,
    MULTI_VECTORS,
    PYLATE,
    SENTENCES,
    SPARSE_ENCODER,
    STANFORD,
)

__all__ = ["DenseLayer", "Recipe", "read_recipe", "transformer_folder"]

MODULES, SETTINGS, CARD = "modules.json", "config_sentence_transformers.json", "README.md"
# A letter for each kind, to match their order.
KINDS = {"Transformer": "T", "Pooling": "P", "Dense": "D", "Normalize": "N", "Dropout": ""}
ORDER = "Transformer, Pooling, any number of Dense, Normalize"
SCORING = {"Transformer": "T", "LogitScore": "L"}  # of a cross-encoder
SCORING_ORDER = "Transformer, perhaps LogitScore"
# Of a sparse encoder; a Router has the modules of documents, and others for queries.
SPARSE = {"Transformer": "T", "MLMTransformer": "T", "SpladePooling": "S", ROUTER: "R"}
SPARSE_ORDER = "Transformer, SpladePooling"
# Of a model with a vector for each token; the mask does not change vectors.
MULTI = {"Transformer": "T", "Dense": "D", "MultiVectorMask": "M", "Normalize": "N"}
MULTI_ORDER = "Transformer, one Dense or more, perhaps MultiVectorMask, Normalize"
MULTI_ORDERS = {MULTI_VECTOR: "TD+(N|MN|NM)", PYLATE: "TD+"}
LIBRARIES = ("sentence_transformers", "pylate")  # of modules; PyLate has a Dense of its own
SIMILARITIES = ("cosine", "dot", "euclidean", "manhattan")


CHAINS = {  # modules of each model_type, and their order
    SENTENCES: (KINDS, ORDER),
    CROSS_ENCODER: (SCORING, SCORING_ORDER),
    SPARSE_ENCODER: (SPARSE, SPARSE_ORDER),
    MULTI_VECTOR: (MULTI, MULTI_ORDER),
    PYLATE: (MULTI, "Transformer, one Dense or more"),
}


@dataclasses.dataclass(frozen=True, eq=False)
class Recipe:
    """The steps from a text to a vector, apart from the Transformer itself."""

    transformer: Path  # the folder of config.json, weights and tokenizer
    kind: str = SENTENCES  # model_type of sentence-transformers; others are not for vectors
    # "mean", "cls", "max", "last", "weighted_mean", "mean_sqrt_len"; None: unset
    pooling: str | None = None
    # False: pooling leaves out the prompt and the special tokens before it
    include_prompt: bool = True
    dense: tuple[DenseLayer, ...] = ()
    normalize: bool = False  # to unit length, before `truncate_dim` cuts
    max_length: int | None = None  # tokens, special ones included; None: only the model's limit
    lower_case: bool = False  # in addition to the tokenizer's own lower-casing
    prompts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    default_prompt: str | None = None  # a key of `prompts`, for requests that name no prompt
    dimensions: tuple[
        int, ...
    ] = ()  # Matryoshka: lengths that vectors may be cut to, longest first; empty: none declared
    truncate_dim: int | None = None  # the library cuts every vector to this length by default
    similarity: str | None = None  # "cosine", "dot", "euclidean", "manhattan"; None: unset
    # Ids of a decoder that scores pairs: of the token whose logit is the score, and perhaps of one
    # whose logit is subtracted.
    score_tokens: tuple[int, ...] = ()
    chat: Mapping[str, Any] | None = None  # see `read_chat`
    # Of a model that weights terms: how those of all tokens become one, and how many logarithms.
    terms: tuple[str, int] | None = None
    query_terms: Path | None = None  # folder of static weights of terms, for queries
    # Of a model that weights each of its tokens: the layer, and ids without a weight.
    token_weights: DenseLayer | None = None
    unweighted: tuple[int, ...] = ()
    # Of a model with a vector for each token: layers that make them, and how it reads each role.
    multi_vector: tuple[DenseLayer, ...] = ()
    roles: Spelled = dataclasses.field(default_factory=dict)


def read_recipe(folder: Path) -> Recipe:
    """Read the settings of a folder saved by sentence-transformers, or by transformers alone.

    Without modules.json the folder is the Transformer itself, and has no pooling. So it is if the
    folder's model is for something else than vectors.

    Raises:
        Refused: a module, its settings or their order cannot be served, or a file is missing or
            damaged.
    """
    kind = _kind(folder)
    if kind == CROSS_ENCODER:
        return _read_scorer(folder)
    if kind == SPARSE_ENCODER and (folder / MODULES).is_file():
        return _read_sparse(folder)
    if kind == STANFORD or (kind in MULTI_VECTORS and (folder / MODULES).is_file()):
        return _read_multi_vector(folder, kind)
    if kind != SENTENCES or not (folder / MODULES).is_file():
        return Recipe(
            transformer=folder,
            kind=kind,
            max_length=max_length(folder, {}),
            dimensions=_dimensions(folder, folder, None),
        )
    modules = _modules(folder)
    if not re.fullmatch("TPD*N?", "".join(KINDS[kind] for kind, _ in modules)):
        chain = ", ".join(kind for kind, _ in modules) or "nothing"
        raise Refused(f"{folder / MODULES} chains {chain}; supported is {ORDER}")
    transformer, pooling, (last, _) = modules[0][1], modules[1][1], modules[-1]
    mode, include_prompt, width = read_pooling(pooling)
    dense = []
    for kind, place in modules:
        if kind == "Dense":
            dense.append(read_dense(place, width))
            width = len(dense[-1].weight)
        elif kind == "Normalize":
            check_names(place)
    limits = read_transformer_settings(transformer)
    settings = _settings(folder / SETTINGS)
    return Recipe(
        transformer=transformer,
        pooling=mode,
        include_prompt=include_prompt,
        dense=tuple(dense),
        normalize=last == "Normalize",
        max_length=max_length(transformer, limits),
        lower_case=bool(limits.get("do_lower_case")),
        dimensions=_dimensions(folder, transformer, settings["truncate_dim"]),
        **settings,
    )


def _read_scorer(folder: Path) -> Recipe:
    """Read the settings of a cross-encoder.

    Without modules.json the folder is the Transformer itself.
    """
    settings = _settings(folder / SETTINGS)
    transformer, limits, chat = folder, dict[str, Any](), None
    tokens: tuple[int, ...] = ()
    if (folder / MODULES).is_file():
        modules = _modules(folder, SCORING, SCORING_ORDER)
        if [kind for kind, _ in modules] not in (["Transformer"], [*SCORING]):
            chain = ", ".join(kind for kind, _ in modules) or "nothing"
            raise Refused(f"{folder / MODULES} chains {chain}; supported is {SCORING_ORDER}")
        transformer = modules[0][1]
        limits, chat = read_chat(transformer)
        tokens = read_score_tokens(modules[1][1]) if modules[1:] else ()
    return Recipe(
        transformer=transformer,
        kind=CROSS_ENCODER,
        max_length=max_length(transformer, limits),
        lower_case=bool(limits.get("do_lower_case")),
        prompts=settings["prompts"],
        default_prompt=settings["default_prompt"],
        score_tokens=tokens,
        chat=chat,
    )


def _read_sparse(folder: Path) -> Recipe:
    """Read the settings of a sparse encoder."""
    modules = _modules(folder, SPARSE, SPARSE_ORDER)
    if "".join(SPARSE[kind] for kind, _ in modules) != "TS":
        chain = ", ".join(kind for kind, _ in modules) or "nothing"
        raise Refused(f"{folder / MODULES} chains {chain}; supported is {SPARSE_ORDER}")
    (_, transformer), (_, pooling) = modules
    limits = read_transformer_settings(transformer, "fill-mask", "logits")
    settings = _settings(folder / SETTINGS)
    return Recipe(
        transformer=transformer,
        kind=SPARSE_ENCODER,
        max_length=max_length(transformer, limits),
        lower_case=bool(limits.get("do_lower_case")),
        prompts=settings["prompts"],
        default_prompt=settings["default_prompt"],
        similarity=settings["similarity"] or "dot",
        terms=read_splade(pooling),
        query_terms=query_folder(folder) if is_router(read_json(folder / MODULES)) else None,
    )


def _read_multi_vector(folder: Path, kind: str) -> Recipe:
    """Read the settings of a model with a vector for each token.

    Stanford's folder has its one layer beside the encoder.
    """
    transformer, limits = folder, dict[str, Any]()
    layers = list[DenseLayer]()
    if kind == STANFORD:
        rules = rules_of_stanford(folder)
    else:
        modules = _modules(folder, *CHAINS[kind])
        letters = "".join(MULTI[each] for each, _ in modules)
        if not re.fullmatch(MULTI_ORDERS[kind], letters):
            chain = ", ".join(each for each, _ in modules) or "nothing"
            raise Refused(f"{folder / MODULES} chains {chain}; supported is {CHAINS[kind][1]}")
        by_kind = dict(modules)
        transformer = by_kind["Transformer"]
        limits = read_transformer_settings(transformer, by_role=kind == MULTI_VECTOR)
        for place in [place for each, place in modules if each == "Dense"]:
            layers.append(read_dense(place, len(layers[-1].weight) if layers else None, TOKENS))
        if kind == PYLATE:
            rules = rules_of_pylate(folder / SETTINGS, read_object(folder / SETTINGS))
        else:
            check_names(by_kind["Normalize"], TOKENS)
            longest = max_length(transformer, limits)
            rules = rules_of_modules(transformer, limits, by_kind.get("MultiVectorMask"), longest)
    settings = _settings(folder / SETTINGS)
    return Recipe(
        transformer=transformer,
        kind=kind,
        max_length=longest_of(rules),
        lower_case=bool(limits.get("do_lower_case")),
        prompts=settings["prompts"],
        default_prompt=settings["default_prompt"],
        multi_vector=tuple(layers),
        roles=rules,
    )


def transformer_folder(folder: Path) -> Path:
    """Return the folder of config.json and the weights: the first module's, or the folder itself.

    Raises:
        Refused: the list of modules is damaged, or one cannot be served.
    """
    kind, modules = _kind(folder), list[tuple[str, Path]]()
    if kind in CHAINS and (folder / MODULES).is_file():
        modules = _modules(folder, *CHAINS[kind])
    return modules[0][1] if modules else folder


def _kind(folder: Path) -> str:
    path, config = folder / SETTINGS, folder / CONFIG
    settings = read_object(path) if path.is_file() else {}
    if "model_type" in settings:
        return str(settings["model_type"])
    if is_pylate(settings):
        return PYLATE
    classes = read_object(config).get("architectures") if config.is_file() else None
    if not (folder / MODULES).is_file() and isinstance(classes, list) and STANFORD in classes:
        return STANFORD
    return SENTENCES


def _modules(
    folder: Path, kinds: Mapping[str, str] = KINDS, order: str = ORDER
) -> list[tuple[str, Path]]:
    """Return kind and folder of each module, in the list's order.

    The modules run in that order; `idx` has no effect.
    """
    path = folder / MODULES
    entries = read_json(path)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise Refused(f"{path} is not a list of modules; save the model again with model.save(...)")
    if ROUTER in kinds and is_router(entries):
        path, entries = folder / ROUTES, routes(folder)["document"]
    modules = []
    for entry in entries:
        name, place = entry.get("type"), entry.get("path")
        library, _, kind = str(name).rpartition(".")
        if library.split(".")[0] not in LIBRARIES or kind not in kinds:
            raise Refused(f"{path}: module {name} cannot be served; supported is {order}")
        inside = inner_folder(folder, place, path, name)
        if kinds[kind]:  # Dropout does nothing but in training
            modules.append((kind, inside))
    return modules


def _settings(path: Path) -> dict[str, Any]:
    """Return the fields of a recipe that concern the whole model."""
    settings = read_object(path) if path.is_file() else {}
    cut = settings.get("truncate_dim")
    if cut is not None and (not isinstance(cut, int) or isinstance(cut, bool) or cut < 1):
        raise Refused(f"{path}: truncate_dim is {cut!r}; it must be a number from 1, or null")
    prompts, default = settings.get("prompts") or {}, settings.get("default_prompt_name")
    if not isinstance(prompts, dict) or not all(
        isinstance(text, str | None) for text in prompts.values()
    ):
        raise Refused(f"{path}: prompts is not an object of texts; correct it")
    if default is not None and (not isinstance(default, str) or default not in prompts):
        raise Refused(
            f"{path}: default_prompt_name {default!r} is not one of the prompts "
            f"{sorted(prompts)}; correct it"
        )
    similarity = settings.get("similarity_fn_name")
    return {
        "prompts": {name: text or "" for name, text in prompts.items()},
        "default_prompt": default,
        "truncate_dim": cut,
        "similarity": similarity if similarity in SIMILARITIES else None,
    }


def _dimensions(folder: Path, transformer: Path, cut: int | None) -> tuple[int, ...]:
    """Return the Matryoshka lengths.

    The library writes them into the model card after training; some authors write them to
    config.json.
    """
    dimensions = {cut} if cut else set()
    config = read_object(transformer / CONFIG) if (transformer / CONFIG).is_file() else {}
    for key in ("matryoshka_dimensions", "matryoshka_dims"):
        values = config.get(key)
        dimensions |= (
            {value for value in values if type(value) is int} if isinstance(values, list) else set()
        )
    if (folder / CARD).is_file():
        card = (folder / CARD).read_text(encoding="utf-8", errors="replace")
        for numbers in re.findall(r'"matryoshka_dims"\s*:\s*\[([\d\s,]{1,1000})\]', card):
            dimensions |= {int(number) for number in re.findall(r"\d{1,9}", numbers)}
    return tuple(sorted((value for value in dimensions if value > 0), reverse=True))

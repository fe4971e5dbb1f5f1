"""Folders of sparse encoders that weight the terms of queries without a model.

Their one module is a Router of sentence-transformers: documents go through a model, and each token
of a query has a weight of its own (Geng et al. 2024, arXiv:2411.04403).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers

from headlight.runtime.bundle.roles import RoleRules
from headlight.runtime.values import Floats
from headlight.spec import INPUT_ROLES
from headlight_export.folders.model_folder import (
    CONFIG,
    Refused,
    inner_folder,
    read_object,
    read_tensors,
)
from headlight_export.tokenizers.tokenizer_file import tokenizer_json

ROUTER, ROUTES = "Router", "router_config.json"
STATIC = ("SparseStaticEmbedding", "IDF")  # today and before


def is_router(modules: Any) -> bool:
    """Return whether the list of modules.json is one Router."""
    kinds = [str(each.get("type")) for each in modules]
    return len(kinds) == 1 and kinds[0].endswith(f".{ROUTER}")


def routes(folder: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the modules of each role, as modules.json lists them.

    Raises:
        Refused: the router has others, or chooses by something else.
    """
    path = folder / ROUTES
    config = read_object(path)
    types, structure = config.get("types"), config.get("structure")
    parameters = config.get("parameters")
    if isinstance(parameters, dict) and parameters.get("route_mappings"):
        raise Refused(f"{path}: route_mappings cannot be served; save the model without them")
    if (
        not isinstance(types, dict)
        or not isinstance(structure, dict)
        or sorted(structure) != sorted(INPUT_ROLES)
        or not all(isinstance(names, list) for names in structure.values())
        or not all(name in types for names in structure.values() for name in map(str, names))
    ):
        raise Refused(f"{path} has no modules for query and document; save the model again")
    return {
        role: [{"type": types[str(name)], "path": name} for name in structure[role]]
        for role in INPUT_ROLES
    }


def query_folder(folder: Path) -> Path:
    """Return the folder of the static weights of queries.

    Raises:
        Refused: queries go through something else.
    """
    modules = routes(folder)["query"]
    kinds = [str(each["type"]).rpartition(".")[2] for each in modules]
    if len(kinds) != 1 or kinds[0] not in STATIC:
        raise Refused(
            f"{folder / ROUTES}: queries go through {', '.join(kinds)}; only {STATIC[0]} is served"
        )
    return inner_folder(folder, modules[0]["path"], folder / ROUTES, kinds[0])


def query_rules(tokenizer: str | None, longest: int) -> RoleRules:
    """Return the rules of queries: the special tokens around a text are no terms.

    Args:
        tokenizer: text of the tokenizer.json; None: none is exported.
        longest: tokens of a text.

    Raises:
        Refused: there is no tokenizer, or it puts no tokens around a text.
    """
    if tokenizer is None:
        raise Refused("the terms of queries are tokens of a tokenizer; leave --ids-only out")
    around = tokenizers.Tokenizer.from_str(tokenizer).encode("").ids
    if not around:
        raise Refused(
            "the tokenizer puts no special tokens around a text, and queries are known by them; "
            "save the model with a tokenizer that does"
        )
    return RoleRules(max_length=longest, skiplist=tuple(dict.fromkeys(around)))


def read_query_terms(folder: Path, tokenizer: str, size: int) -> Floats:
    """Return the weight of each term in queries, float32 [size].

    Args:
        folder: of the static weights.
        tokenizer: text of the tokenizer.json for documents.
        size: ids that the model has.

    Raises:
        Refused: the weights are not such, or queries have another tokenizer.
    """
    if tokenizer_json(folder, lower_case=False) not in (None, tokenizer):
        raise Refused(f"{folder} has another tokenizer than documents; save one for both")
    config = read_object(folder / CONFIG)
    if config.get("path"):
        weights = _weights_of_words(folder / "idf.json", tokenizer, size)
    else:
        tensor = read_tensors(folder).get("weight")
        weights = np.zeros(0, np.float32) if tensor is None else tensor.numpy()
    if weights.ndim != 1 or not 1 <= len(weights) <= size or not (weights >= 0).all():
        raise Refused(
            f"{folder} has weights of shape {[*weights.shape]}; expected one of 0 or more for "
            f"each of up to {size} terms"
        )
    return np.pad(weights, (0, size - len(weights)))


def _weights_of_words(file: Path, tokenizer: str, size: int) -> Floats:
    vocabulary = tokenizers.Tokenizer.from_str(tokenizer)
    weights = np.zeros(size, np.float32)
    for token, weight in read_object(file).items():
        if isinstance(weight, bool) or not isinstance(weight, int | float):
            raise Refused(f"{file}: the weight of {token!a:.60} is no number; correct it")
        number = vocabulary.token_to_id(token)
        if number is not None and number < size and math.isfinite(weight):
            weights[number] = weight
    return weights

"""The modules of a sentence-transformers folder: one function reads each."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headlight_export.folders.model_folder import CONFIG, Refused, read_object, read_tensors
from headlight_model.config import TERM_POOLING

# The settings file of the Transformer module has had many names; the first non-empty one counts.
TRANSFORMER_SETTINGS = tuple(
    f"sentence_{name}_config.json"
    for name in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
POOLING = {
    "cls": "cls",
    "max": "max",
    "mean": "mean",
    "mean_sqrt_len_tokens": "mean_sqrt_len",
    "weightedmean": "weighted_mean",
    "lasttoken": "last",
}
# Before pooling_mode, each mode had a switch.
POOLING_SWITCHES = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len_tokens",
    "pooling_mode_weightedmean_tokens": "weightedmean",
    "pooling_mode_lasttoken": "lasttoken",
}
ACTIVATIONS = {
    f"torch.nn.modules.{name}": name.split(".")[1].lower()
    for name in (
        "linear.Identity",
        "activation.Tanh",
        "activation.ReLU",
        "activation.GELU",
        "activation.SiLU",
        "activation.Sigmoid",
    )
}
# Arguments for loading that do not change float32 numbers.
HARMLESS = {
    "model": {
        "add_pooling_layer",
        "attn_implementation",
        "device_map",
        "dtype",
        "low_cpu_mem_usage",
        "torch_dtype",
    },
    "processor": {"model_max_length", "padding_side", "use_fast"},
    "config": {
        "attn_implementation",
        "unpad_inputs",
        "use_cache",
        "use_memory_efficient_attention",
    },
}
OLD_NAMES = {"model": "model_args", "processor": "tokenizer_args", "config": "config_args"}
# What modules work on: a vector of the text, or one of each token.
POOLED, TOKENS = "sentence_embedding", "token_embeddings"
# Of SpladePooling: logarithms behind the ReLU.
LOGARITHMS = {"relu": 1, "log1p_relu": 2}


@dataclasses.dataclass(frozen=True, eq=False)
class DenseLayer:
    """activation(x @ weight.T + bias), applied to pooled vectors, or to those of tokens."""

    weight: Tensor  # float32 [out, in]
    bias: Tensor | None  # float32 [out]
    activation: str  # "identity", "tanh", "relu", "gelu" (the exact form), "silu" or "sigmoid"


def read_pooling(folder: Path) -> tuple[str, bool, int | None]:
    """Return the mode in our terms, whether the prompt's tokens count, and the width if set.

    The width is that of the pooled tokens.

    Raises:
        Refused: the mode is unknown, or there are several.
    """
    path = folder / CONFIG
    config = read_object(path)
    stated = (
        config.get("pooling_mode")
        or [mode for key, mode in POOLING_SWITCHES.items() if config.get(key)]
        or "mean"
    )
    modes = stated if isinstance(stated, list) else [stated]
    if len(modes) != 1:
        raise Refused(
            f"{path}: pooling by several modes at once ({modes}) cannot be served; "
            "train with one of them"
        )
    [mode] = modes
    if not isinstance(mode, str) or mode not in POOLING:
        raise Refused(
            f"{path}: pooling_mode {mode!r} cannot be served; supported is {', '.join(POOLING)}"
        )
    width = config.get("embedding_dimension", config.get("word_embedding_dimension"))
    return (
        POOLING[mode],
        bool(config.get("include_prompt", True)),
        width if isinstance(width, int) else None,
    )


def read_dense(folder: Path, width: int | None, vectors: str = POOLED) -> DenseLayer:
    """Read one dense layer.

    Args:
        folder: of config.json and model.safetensors.
        width: of its input vectors; None: not known.
        vectors: that it works on, POOLED or TOKENS; also if its settings name none.

    Raises:
        Refused: an option, the activation, the names or the shapes of its tensors do not fit.
    """
    path = folder / CONFIG
    config = read_object(path)
    check_names(folder, vectors, usual=vectors)
    name = config.get("activation_function", "torch.nn.modules.activation.Tanh")
    if not isinstance(name, str) or name not in ACTIVATIONS:
        known = ", ".join(key.rpartition(".")[2] for key in ACTIVATIONS)
        raise Refused(
            f"{path}: activation_function {name} cannot be served; of torch.nn these can:  {known}"
        )
    tensors = read_tensors(folder)
    shape = [config.get("out_features"), config.get("in_features")]
    adds = bool(config.get("use_residual"))
    expected = {"linear.weight"} | ({"linear.bias"} if config.get("bias", True) else set())
    expected |= {"residual.weight"} if adds and shape[0] != shape[1] else set()
    if set(tensors) != expected:
        raise Refused(
            f"{folder} holds tensors {sorted(tensors)}, not {sorted(expected)}; "
            "save the model again"
        )
    weight, bias = tensors["linear.weight"], tensors.get("linear.bias")
    residual = tensors.get("residual.weight", weight)
    if (
        [*weight.shape] != shape
        or [*residual.shape] != shape
        or (bias is not None and bias.shape != weight.shape[:1])
    ):
        shapes = " and ".join(f"{name} {list(tensor.shape)}" for name, tensor in tensors.items())
        raise Refused(f"{folder} holds {shapes}, while {CONFIG} says {shape}; save the model again")
    if width is not None and weight.shape[1] != width:
        raise Refused(
            f"{folder} takes vectors of {weight.shape[1]} numbers, but gets {width}; "
            "save the model again"
        )
    if adds and ACTIVATIONS[name] != "identity":
        raise Refused(
            f"{path}: use_residual cannot be served with {name}; train the layer without it"
        )
    if adds:  # without an activation, both are one matrix
        weight = weight + tensors.get("residual.weight", torch.eye(len(weight)))
    return DenseLayer(weight, bias, ACTIVATIONS[name])


def check_names(folder: Path, vectors: str = POOLED, usual: str = POOLED) -> None:
    """Check which vectors a module works on. Normalize may have no settings at all.

    Args:
        folder: of the module.
        vectors: it must work on these.
        usual: it works on these if its settings name none.

    Raises:
        Refused: it works on something else.
    """
    path = folder / CONFIG
    config = read_object(path) if path.is_file() else {}
    read = config.get("module_input_name") or usual
    named = {"module_input_name": read, "module_output_name": config.get("module_output_name")}
    for key, name in named.items():
        if (name or read) != vectors:
            raise Refused(f"{path}: {key} {name!r} cannot be served; only {vectors} can")


def read_chat(folder: Path) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the settings of a cross-encoder's Transformer, and how it makes a chat of pairs.

    The latter is None if it does not. Else it has "format", of a message's content, and
    "arguments", which the chat template gets.

    Raises:
        Refused: a setting would change scores in a way that cannot be served.
    """
    path, config = _transformer_settings(folder)
    processing = _part(path, config, "processing_kwargs")
    if processing.get("common") or processing.get("text"):
        raise Refused(
            f"{path}: processing_kwargs cannot be served but for chat_template; "
            "save the model with max_seq_length instead"
        )
    message = _part(path, config, "modality_config").get("message")
    if message is None:
        return config, None
    arguments = dict(_part(path, processing, "chat_template"))
    arguments.pop("restore_suffix", None)  # what follows the texts is never cut here
    form = message.get("format", "auto") if isinstance(message, dict) else "auto"
    return config, {"format": form, "arguments": arguments}


def read_score_tokens(folder: Path) -> tuple[int, ...]:
    """Return the ids of a LogitScore module: of the true token and, if it has one, the false one.

    Raises:
        Refused: they are not ids, or it reads something else than the decoder's logits.
    """
    path = folder / CONFIG
    config = read_object(path)
    if config.get("module_input_name") not in (None, "causal_logits"):
        raise Refused(f"{path}: module_input_name cannot be served; only causal_logits can")
    tokens: list[Any] = [config.get("true_token_id"), config.get("false_token_id")]
    ids = tokens if tokens[1] is not None else tokens[:1]
    if not all(type(token) is int and token >= 0 for token in ids):
        raise Refused(f"{path}: true_token_id and false_token_id are {tokens}; expected ids")
    return tuple(ids)


def _transformer_settings(folder: Path) -> tuple[Path, dict[str, Any]]:
    """Return the file of the Transformer module's settings, and what it holds; may be nothing."""
    path, config = folder / TRANSFORMER_SETTINGS[0], dict[str, Any]()
    for path in (folder / name for name in TRANSFORMER_SETTINGS):
        if path.is_file() and (config := read_object(path)):
            break
    return path, config


def read_splade(folder: Path) -> tuple[str, int]:
    """Return how a sparse encoder pools its terms, "max" or "sum", and its number of logarithms.

    Raises:
        Refused: it does so in another way.
    """
    path = folder / CONFIG
    config = read_object(path)
    pooling = config.get("pooling_strategy", "max")
    activation = config.get("activation_function", "relu")
    if pooling not in TERM_POOLING or activation not in LOGARITHMS:
        raise Refused(
            f"{path}: pooling_strategy {pooling!r} with activation_function {activation!r} cannot "
            f"be served; supported are {', '.join(TERM_POOLING)} with {', '.join(LOGARITHMS)}"
        )
    return pooling, LOGARITHMS[activation]


def read_transformer_settings(
    folder: Path,
    expected: str = "feature-extraction",
    output: str = "last_hidden_state",
    *,
    by_role: bool = False,
) -> dict[str, Any]:
    """Return the Transformer module's own settings: lengths, lower-casing, arguments for loading.

    Args:
        folder: of the module.
        expected: its transformer_task.
        output: of the Transformer, that the next module reads.
        by_role: whether queries and documents may have settings of their own.

    Raises:
        Refused: a setting would change vectors in a way that cannot be served.
    """
    path, config = _transformer_settings(folder)
    for key in ("query_length", "document_length", "query_expansion"):
        if config.get(key) is not None and not by_role:
            raise Refused(
                f"{path}: {key} cannot be served; save the model with one "
                "max_seq_length for all texts"
            )
    task = config.get("transformer_task", expected)
    if task != expected:
        raise Refused(f"{path}: transformer_task {task!r} cannot be served; only {expected} can")
    modalities = _part(path, config, "modality_config")
    if "message" in modalities:
        raise Refused(
            f"{path}: a chat template around texts cannot be served; "
            "save the model with modality text alone"
        )
    if modalities and modalities.get("text") != {
        "method": "forward",
        "method_output_name": output,
    }:
        raise Refused(f"{path}: modality_config cannot be served; only {output} of texts can")
    processing = _part(path, config, "processing_kwargs")
    if processing.get("common") or processing.get("text"):
        raise Refused(
            f"{path}: processing_kwargs cannot be served; "
            "save the model with max_seq_length instead"
        )
    for kind, harmless in HARMLESS.items():
        for key in (f"{kind}_kwargs", OLD_NAMES[kind]):
            strange = sorted(
                set(_part(path, config, key)) - harmless - {"trust_remote_code", "code_revision"}
            )
            if strange:
                raise Refused(
                    f"{path}: {key} sets {strange[0]}, which cannot be served; "
                    "save the model without it"
                )
    return config


def _part(path: Path, config: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return the object under a key; empty if there is none."""
    value = config.get(key)
    if not isinstance(value, dict | None):
        raise Refused(f"{path}: {key} is not an object; save the model again")
    return value or {}

"""Families of encoders that can be imported, each a function from names and config to our encoder.

The encoder never checks the family. A family's unique feature becomes an option of
`headlight_model.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from headlight_export.families import (
    bert,
    deberta_v2,
    distilbert,
    electra,
    gemma3,
    gpt2,
    gte,
    jina_bert,
    llama,
    modernbert,
    mpnet,
    nomic_bert,
    roberta,
    roformer,
    t5,
)
from headlight_export.families.source import Config, NoTensors, Unfit
from headlight_export.families.unsupported import CAUSES
from headlight_export.folders.model_folder import Refused
from headlight_model.checkpoint import printable
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder


class Convert(Protocol):
    """The conversion function of a family."""

    def __call__(self, config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
        """Return the encoder of a folder.

        Args:
            config: its config.json.
            tensors: its weights, float32. The encoder's tensors are taken out; unneeded ones are
                left.
            longest: tokens to be served, if more than in the config are requested and the positions
                allow it; None: the config's.

        Returns:
            float32, in evaluation mode. The caller sets pooling and all steps after it.

        Raises:
            Refused: naming the part that cannot be served or does not fit.
        """


FAMILIES: dict[str, Convert] = {
    "bert": bert.convert,
    "camembert": roberta.convert,
    "deberta-v2": deberta_v2.convert,
    "distilbert": distilbert.convert,
    "electra": electra.convert,
    "eurobert": llama.eurobert,
    "gemma3_text": gemma3.convert,
    "gpt2": gpt2.convert,
    "gte": gte.gte,
    "jina_bert": jina_bert.convert,
    "llama": llama.llama,
    "llama_bidirec": llama.llama,
    "mistral": llama.mistral,
    "modernbert": modernbert.convert,
    "mpnet": mpnet.convert,
    "mt5": t5.convert,
    "new": gte.new,
    "nomic_bert": nomic_bert.convert,
    "qwen2": llama.qwen2,
    "qwen3": llama.qwen3,
    "roberta": roberta.convert,
    "roformer": roformer.convert,
    "t5": t5.t5,
    "umt5": t5.umt5,
    "xlm-roberta": roberta.convert,
}
# float16 is known not to hold their activations: transformers keeps a product of T5 in float32, and
# Gemma 3's publisher excludes float16. Others are measured.
BEYOND_FLOAT16 = frozenset({"gemma3_text", "mt5", "t5", "umt5"})


def is_headlight(config: Mapping[str, Any]) -> bool:
    """Return whether a config.json is of a checkpoint of ours."""
    return "model_type" not in config and "positions" in config


def family_of(config: Mapping[str, Any]) -> str:
    """Return the key of FAMILIES for a config.json.

    Raises:
        Refused: it names an unknown family, or its weights are quantized: they are not those that
            the model computes with.
    """
    if (quantization := config.get("quantization_config")) is not None:
        method = (
            quantization.get("quant_method") if isinstance(quantization, dict) else quantization
        )
        raise Refused(
            f"config.json has a quantization_config ({method!a:.40}), and quantized weights are "
            "not read; export the folder that they were made from (--precision int8 quantizes here)"
        )
    name = str(config.get("model_type", "")).replace("xlm_roberta", "xlm-roberta")
    if name == "bert" and config.get("position_embedding_type") == "alibi":
        return "jina_bert"
    if name not in FAMILIES:
        cause, code = CAUSES.get(name, ""), code_of(config)
        why = (
            f": {cause}" if cause else f", and the folder's code, {code}, is never run" * bool(code)
        )
        raise Refused(
            f"config.json: model_type {name!a:.40} is not a supported family{why}; "
            f"supported are {', '.join(sorted(FAMILIES))}"
        )
    return name


def code_of(config: Mapping[str, Any]) -> str:
    """Return the class of a folder's own code for the model, which is never run; empty: none."""
    auto_map = config.get("auto_map")
    names = auto_map if isinstance(auto_map, dict) else {}
    return next(
        (printable(str(names[key])) for key in names if str(key).startswith("AutoModel")), ""
    )


def convert(
    family: str, config: Config, tensors: dict[str, Tensor], longest: int | None
) -> Encoder:
    """Return the encoder of a family; the arguments are those of `Convert`.

    Raises:
        Refused: as there. If tensors do not fit, it mentions the folder's own code. Errors of our
            encoder's config and of arithmetic are attributed to config.json.
    """
    try:
        return FAMILIES[family](config, tensors, longest)
    except Unfit as error:
        if code := code_of(config.values):
            which = f"config.json names code of its own ({code}), which may be another architecture"
            error.args = (f"{error}; {which}",)
        raise
    except Refused:
        raise
    except (ValueError, ArithmeticError) as error:
        raise Refused(
            f"config.json has values that do not go together: {error}; correct them"
        ) from error


def encoder_config(family: str, config: Mapping[str, Any]) -> EncoderConfig:
    """Return the config of the encoder of a folder whose weights are not there yet.

    Raises:
        Refused: a value cannot be served.
    """
    try:
        convert(family, Config(config), {}, None)
    except NoTensors as missing:
        return missing.built
    raise RuntimeError(f"{family} made an encoder without tensors. This is a bug.")

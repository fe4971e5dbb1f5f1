"""Families of encoders that can be imported: for each a function that maps names and config to our one encoder.

The encoder never asks of which family it is: a family that needs what no other has becomes an option of `headlight_model.config`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from torch import Tensor

from headlight_export.families import bert, distilbert, jina_bert, llama, modernbert, nomic_bert, roberta, roformer
from headlight_export.families.source import Config
from headlight_export.folders.model_folder import Refused
from headlight_model.encoder import Encoder


class Convert(Protocol):
    """A family."""

    def __call__(self, config: Config, tensors: dict[str, Tensor], longest: int | None) -> Encoder:
        """The encoder of a folder.

        Args:
            config: its config.json.
            tensors: its weights, float32. Those that the encoder has are taken out, and what vectors do not need is left.
            longest: tokens to be served, where more than the config's are wanted and the positions allow it; None: the config's.

        Returns:
            float32, in evaluation mode. What pooling and what follows it is up to the caller to set.

        Raises:
            Refused: naming what cannot be served, or what does not fit.
        """


FAMILIES: dict[str, Convert] = {
    "bert": bert.convert,
    "camembert": roberta.convert,
    "distilbert": distilbert.convert,
    "eurobert": llama.eurobert,
    "jina_bert": jina_bert.convert,
    "llama": llama.llama,
    "mistral": llama.mistral,
    "modernbert": modernbert.convert,
    "nomic_bert": nomic_bert.convert,
    "qwen2": llama.qwen2,
    "qwen3": llama.qwen3,
    "roberta": roberta.convert,
    "roformer": roformer.convert,
    "xlm-roberta": roberta.convert,
}


def family_of(config: Mapping[str, Any]) -> str:
    """The key of FAMILIES for a config.json.

    Raises:
        Refused: it names none that we have.
    """
    name = str(config.get("model_type", "")).replace("xlm_roberta", "xlm-roberta")
    if name == "bert" and config.get("position_embedding_type") == "alibi":
        return "jina_bert"
    if name not in FAMILIES:
        raise Refused(
            f"config.json: model_type {name!a:.40} is no family that can be served; served are {', '.join(sorted(FAMILIES))}"
        )
    return name

"""Heads for scores: a list of layers on what pooling gives, or on each token.

A family's head is a row of a table: what its own code calls the layers, and what follows each.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from headlight_export.families.source import Config
from headlight_export.families.words import activation
from headlight_export.folders.model_folder import Refused
from headlight_model.config import Dense, EncoderConfig
from headlight_model.encoder import Encoder


class Layer(NamedTuple):
    """A linear layer in a folder.

    Attributes:
        name: of its tensors, without .weight and .bias.
        activation: what follows it; empty: config.json's `classifier_activation`.
        norm: name of the norm that follows; empty: none.
        bias: whether it has one; or the key of config.json that says so, false by default.
    """

    name: str
    activation: str = "identity"
    norm: str = ""
    bias: str | bool = True


class Head(NamedTuple):
    """A head that was read, before it has labels.

    Attributes:
        layers: of our config.
        state: tensors by the encoder's names.
        pooling: of what a head for texts reads.
    """

    layers: tuple[Dense, ...]
    state: Mapping[str, Tensor]
    pooling: str


CLASSIFIER = Layer("classifier")
ROBERTA = (Layer("classifier.dense", "tanh"), Layer("classifier.out_proj"))
MODERNBERT = (Layer("head.dense", "", "head.norm", "classifier_bias"), CLASSIFIER)
DECODERS = ("llama", "mistral", "qwen2", "qwen3")
# Heads for texts. They read the first token; those of decoders read the last, and ModernBERT's what
# its config.json says.
OF_TEXTS: dict[str, tuple[Layer, ...]] = {
    "bert": (Layer("bert.pooler.dense", "tanh"), CLASSIFIER),
    "camembert": ROBERTA,
    "distilbert": (Layer("pre_classifier", "relu"), CLASSIFIER),
    "electra": (Layer("classifier.dense", "gelu"), Layer("classifier.out_proj")),
    "modernbert": MODERNBERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    **dict.fromkeys(DECODERS, (Layer("score", bias=False),)),
}
OF_TOKENS = (
    dict.fromkeys(OF_TEXTS, (CLASSIFIER,))
    | {"modernbert": MODERNBERT}
    | dict.fromkeys(DECODERS, (Layer("score"),))
)
GENERATES = "lm_head.weight"


def read_head(
    family: str,
    config: Config,
    tensors: dict[str, Tensor],
    built: EncoderConfig,
    *,
    each_token: bool,
) -> Head:
    """Take a head out of a folder's tensors.

    Args:
        family: a key of OF_TEXTS.
        config, tensors: as for `headlight_export.families.Convert`.
        built: the encoder's.
        each_token: whether it is a head for tokens.

    Raises:
        Refused: a tensor is missing, or does not fit. A missing one would be made of random
            numbers by other libraries.
    """
    layers, state, width = [], dict[str, Tensor](), built.dim
    for at, layer in enumerate((OF_TOKENS if each_token else OF_TEXTS)[family]):
        ours, weight = f"score_head.{at}", f"{layer.name}.weight"
        has_bias = layer.bias
        if isinstance(has_bias, str):
            has_bias = config.get(bool, has_bias, default=False)
        rows = tensors[weight].shape[0] if weight in tensors and tensors[weight].ndim else 0
        shapes: dict[str, tuple[int, ...]] = {"weight": (rows, width)}
        shapes |= {"bias": (rows,)} if has_bias else {}
        _move(tensors, state, layer.name, ours, shapes)
        if layer.norm:
            parts = ("weight", "bias") if built.norm_bias else ("weight",)
            _move(tensors, state, layer.norm, f"{ours}.norm", dict.fromkeys(parts, (rows,)))
        follows = layer.activation or activation(config, "classifier_activation")
        layers.append(Dense(width=rows, bias=has_bias, activation=follows, norm=bool(layer.norm)))
        width = rows
    pooling = "last" if family in DECODERS else "cls"
    if family == "modernbert" and not each_token:
        config.demand("classifier_pooling", ("cls", "mean"), "which is not known for a head")
        pooling = config.get(str, "classifier_pooling", default="cls")
    return Head(tuple(layers), state, pooling)


def read_token_head(
    family: str, tensors: dict[str, Tensor], encoder: Encoder, tokens: tuple[int, ...]
) -> Head:
    """Make a head of a decoder that scores by the tokens that it would generate.

    Its one logit is that of the first token, less that of the second, if there is one. Computed as
    one row, it has no rounding of two large logits.

    Args:
        family: of the decoder.
        tensors: of the folder. Without a head of their own, the embeddings generate.
        encoder: the decoder.
        tokens: one id or two.

    Raises:
        Refused: the family does not generate, or has no such token.
    """
    if family not in DECODERS:
        raise Refused(
            f"a model of the family {family} generates no tokens, so it cannot score by them; "
            "leave --task and --score-tokens out"
        )
    weight = tensors.pop(GENERATES, encoder.embedding.weight.detach())
    shape = [encoder.config.vocab_size, encoder.config.dim]
    if list(weight.shape) != shape:
        raise Refused(
            f"{GENERATES} has the shape {list(weight.shape)}; config.json makes it {shape}"
        )
    if not all(0 <= token < len(weight) for token in tokens):
        raise Refused(
            f"the scores are of the tokens {tokens}, and the model has {len(weight)}; correct "
            "1_LogitScore, or give --score-tokens"
        )
    row = weight[tokens[0]] - (weight[tokens[1]] if tokens[1:] else 0)
    layer = Dense(width=1, bias=False)
    return Head((layer,), {"score_head.0.weight": row[None].clone()}, "last")


def _move(
    tensors: dict[str, Tensor],
    state: dict[str, Tensor],
    theirs: str,
    ours: str,
    shapes: Mapping[str, tuple[int, ...]],
) -> None:
    """Move the tensors of a module, which must have these shapes. Raises Refused."""
    for part, shape in shapes.items():
        name = f"{theirs}.{part}"
        if name not in tensors:
            raise Refused(
                f"the weights have no {name}, so the model's head was not trained or not saved; "
                "save the trained model, or export its vectors with --task embed --pooling mean "
                "or cls"
            )
        if tuple(tensors[name].shape) != shape:
            have = list(tensors[name].shape)
            raise Refused(f"{name} has the shape {have}; the model's head takes {list(shape)}")
        state[f"{ours}.{part}"] = tensors.pop(name)

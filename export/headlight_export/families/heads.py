"""Heads for scores, or for terms: a list of layers on what pooling gives, or on each token.

A family's head is a row of a table: what its own code calls the layers, and what follows each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from headlight_export.families.source import Config
from headlight_export.families.words import activation
from headlight_export.folders.model_folder import Refused
from headlight_model.config import Dense, EncoderConfig
from headlight_model.encoder import Encoder

UNTRAINED = (
    "so the model's head was not trained or not saved; save the trained model, or export its "
    "vectors with --task embed --pooling mean or cls"
)


class Layer(NamedTuple):
    """A linear layer in a folder.

    Attributes:
        name: of its tensors, without .weight and .bias.
        activation: what follows it; empty: config.json says it.
        norm: name of the norm that follows; empty: none.
        bias: whether it has one; or the key of config.json that says so, false by default.
    """

    name: str
    activation: str = "identity"
    norm: str = ""
    bias: str | bool = True


class Decoder(NamedTuple):
    """A masked language model's head: layers, and a decoder with a row for each term.

    Attributes:
        layers: before the decoder.
        name: of the decoder's tensors; in most folders its weights are those of the embedding.
        bias: names that its bias may have; the first one counts, as in transformers.
        activation: key of config.json with the activation of `layers`; empty: as they say.
    """

    layers: tuple[Layer, ...]
    name: str
    bias: tuple[str, ...]
    activation: str = ""


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
POOLERS = ("bert", "gte", "new")  # families with a layer before it, which keeps their prefix
ROBERTA = (Layer("classifier.dense", "tanh"), Layer("classifier.out_proj"))
MODERNBERT = (Layer("head.dense", "", "head.norm", "classifier_bias"), CLASSIFIER)
# Its classifier reads what pooling gives, and divides logits by config.json's temperature.
POOLED_DECODER = "llama_bidirec"
DECODERS = ("gemma3_text", "gpt2", "llama", POOLED_DECODER, "mistral", "qwen2", "qwen3")
# Heads for texts. They read the first token; those of decoders read the last, and ModernBERT's what
# its config.json says.
OF_TEXTS: dict[str, tuple[Layer, ...]] = {
    "camembert": ROBERTA,
    "deberta-v2": (Layer("pooler.dense", ""), CLASSIFIER),
    "distilbert": (Layer("pre_classifier", "relu"), CLASSIFIER),
    "electra": (Layer("classifier.dense", "gelu"), Layer("classifier.out_proj")),
    **{name: (Layer(f"{name}.pooler.dense", "tanh"), CLASSIFIER) for name in POOLERS},
    "modernbert": MODERNBERT,
    "mpnet": ROBERTA,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    **dict.fromkeys(DECODERS, (Layer("score", bias=False),)),
}
OF_TOKENS = (
    dict.fromkeys(OF_TEXTS, (CLASSIFIER,))
    | {"modernbert": MODERNBERT}
    | dict.fromkeys(DECODERS, (Layer("score"),))
    | {"gpt2": (CLASSIFIER,)}
)
GENERATES = "lm_head.weight"
LM_HEAD = Decoder(
    (Layer("lm_head.dense", "gelu", "lm_head.layer_norm"),),
    "lm_head.decoder",
    ("lm_head.decoder.bias", "lm_head.bias"),
)
GTE_HEAD = Decoder(
    (Layer("lm_head.dense", "", "lm_head.norm"),),
    "lm_head.decoder",
    ("lm_head.decoder.bias",),
    "hidden_act",
)
# Heads of masked language models.
OF_TERMS = {
    "bert": Decoder(
        (Layer("cls.predictions.transform.dense", "", "cls.predictions.transform.LayerNorm"),),
        "cls.predictions.decoder",
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
        "hidden_act",
    ),
    "camembert": LM_HEAD,
    "distilbert": Decoder(
        (Layer("vocab_transform", "", "vocab_layer_norm"),),
        "vocab_projector",
        ("vocab_projector.bias",),
        "activation",
    ),
    "gte": GTE_HEAD,
    "modernbert": Decoder(
        (Layer("head.dense", "", "head.norm", "classifier_bias"),),
        "decoder",
        ("decoder.bias",),
        "classifier_activation",
    ),
    "mpnet": LM_HEAD,
    "new": GTE_HEAD,
    "roberta": LM_HEAD,
    "xlm-roberta": LM_HEAD,
}


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
    rows = (OF_TOKENS if each_token else OF_TEXTS)[family]
    key = "pooler_hidden_act" if family == "deberta-v2" else "classifier_activation"
    layers, state = _layers(rows, "score_head", config, tensors, built, key)
    pooling = "last" if family in DECODERS else "cls"
    if family == POOLED_DECODER and not each_token:
        pooling, temperature = built.pooling, config.get(float, "temperature", default=1.0)
        if temperature <= 0:
            raise Refused(f"config.json: temperature is {temperature}; it must be above 0")
        state["score_head.0.weight"] /= temperature
    if family == "modernbert" and not each_token:
        config.demand(
            "classifier_pooling", ("cls", "mean"), "which is not known for a head; cls and mean are"
        )
        pooling = config.get(str, "classifier_pooling", default="cls")
    return Head(layers, state, pooling)


def read_term_head(
    family: str, config: Config, tensors: dict[str, Tensor], encoder: Encoder
) -> tuple[tuple[Dense, ...], bool, dict[str, Tensor]]:
    """Take a masked language model's head out of a folder's tensors.

    Returns:
        The layers before the decoder, whether the decoder is tied to the embedding, and the
        tensors by the encoder's names.

    Raises:
        Refused: as `read_head`.
    """
    decoder, built = OF_TERMS[family], encoder.config
    layers, state = _layers(
        decoder.layers, "term_head.layers", config, tensors, built, decoder.activation
    )
    width, size = layers[-1].width, built.vocab_size
    weight, embedding = tensors.pop(f"{decoder.name}.weight", None), encoder.embedding.weight
    tied = weight is None or torch.equal(weight, embedding)
    if weight is not None and not tied:
        _check_shape(f"{decoder.name}.weight", weight, (size, width))
        state["term_head.decoder"] = weight
    biases = [tensors.pop(name) for name in decoder.bias if name in tensors]
    if not biases and config.get(bool, "decoder_bias", default=True):
        raise Refused(f"the weights have no {decoder.bias[0]}, {UNTRAINED}")
    bias = biases[0] if biases else torch.zeros(size)
    _check_shape(decoder.bias[0], bias, (size,))
    return layers, tied, state | {"term_head.bias": bias}


def _layers(
    rows: Sequence[Layer],
    place: str,
    config: Config,
    tensors: dict[str, Tensor],
    built: EncoderConfig,
    activation_key: str,
) -> tuple[tuple[Dense, ...], dict[str, Tensor]]:
    """Take layers out of a folder's tensors; return them, and their tensors below `place`."""
    layers, state, width = [], dict[str, Tensor](), built.dim
    for at, layer in enumerate(rows):
        ours, weight = f"{place}.{at}", f"{layer.name}.weight"
        has_bias = layer.bias
        if isinstance(has_bias, str):
            has_bias = config.get(bool, has_bias, default=False)
        size = tensors[weight].shape[0] if weight in tensors and tensors[weight].ndim else 0
        shapes: dict[str, tuple[int, ...]] = {"weight": (size, width)}
        shapes |= {"bias": (size,)} if has_bias else {}
        _move(tensors, state, layer.name, ours, shapes)
        if layer.norm:
            parts = ("weight", "bias") if built.norm_bias else ("weight",)
            _move(tensors, state, layer.norm, f"{ours}.norm", dict.fromkeys(parts, (size,)))
        follows = layer.activation or activation(config, activation_key)
        layers.append(Dense(width=size, bias=has_bias, activation=follows, norm=bool(layer.norm)))
        width = size
    return tuple(layers), state


def read_token_head(
    family: str,
    config: Config,
    tensors: dict[str, Tensor],
    encoder: Encoder,
    tokens: tuple[int, ...],
) -> Head:
    """Make a head of a decoder that scores by the tokens that it would generate.

    Its one logit is that of the first token, less that of the second, if there is one. Computed as
    one row, it has no rounding of two large logits.

    Args:
        family: of the decoder.
        config: of the folder.
        tensors: of the folder. Without a head of their own, the embeddings generate.
        encoder: the decoder.
        tokens: one id or two.

    Raises:
        Refused: the family does not generate, or has no such token. Or its logits are capped.
    """
    if family not in DECODERS:
        raise Refused(
            f"a model of the family {family} generates no tokens, so it cannot score by them; "
            "leave --task and --score-tokens out"
        )
    config.demand(
        "final_logit_softcapping",  # of Gemma
        (),
        "which caps scores by a tanh; that cannot be served, but vectors can: --task embed",
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


def _check_shape(name: str, tensor: Tensor, shape: tuple[int, ...]) -> None:
    if tuple(tensor.shape) != shape:
        have = list(tensor.shape)
        raise Refused(f"{name} has the shape {have}; the model's head takes {list(shape)}")


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
            raise Refused(f"the weights have no {name}, {UNTRAINED}")
        _check_shape(name, tensors[name], shape)
        state[f"{ours}.{part}"] = tensors.pop(name)

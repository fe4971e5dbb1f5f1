"""Comparison of our encoder with the code that a folder was made with, if that is installed."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from headlight.runtime.parity.golden_inputs import distance
from headlight_export.families.heads import POOLED_DECODER
from headlight_export.families.llama import bidirectional_by_name
from headlight_export.folders.model_folder import Refused, read_config
from headlight_export.folders.origin import OURS
from headlight_export.folders.task import CLASSIFIER, GENERATES, OF_TOKENS
from headlight_export.parity.reference import (
    lengths_to_try,
    longest_with_maps,
    random_ids,
    random_segments,
)
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

SEED = 40
FLOOR = 1e-4  # between two float32 implementations; another activation or norm is off by more
# Times our own rounding error: their angles are float32, and large biases of queries and keys
# multiply the difference.
SLACK = 40
LONGEST = 128  # tokens; wiring errors show in short texts, or at the ends of windows
UNKNOWN = ("jina_bert",)  # families that transformers has no code for
WITH_DECODER = ("mt5", "t5", "umt5")  # families of which transformers opens a decoder, too
ENCODER = "ForTextEncoding"  # of its classes without one
# Names in configs of NomicBERT's own code, and those of transformers. transformers reads the
# tensors of such a folder, but not its sizes.
OWN_SIZES = "n_embd"  # in the config of such a folder
WORDS = {
    "n_embd": "hidden_size",
    "n_head": "num_attention_heads",
    "n_inner": "intermediate_size",
    "n_layer": "num_hidden_layers",
    "layer_norm_epsilon": "layer_norm_eps",
    "type_vocab_size": "type_vocab_size",
}
GATES = {"swiglu": "silu", "geglu": "gelu"}


@dataclasses.dataclass(frozen=True)
class Compared:
    """The result of a comparison.

    Attributes:
        errors: the largest distance by output ("tokens", "attention", "hidden", and "scores" of a
            model that has a head for them); empty if nothing was compared.
        version: of transformers.
        why_not: the reason that nothing was compared; empty for our own checkpoints, as no other
            code exists.
    """

    errors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    version: str = ""
    why_not: str = ""

    def to_json(self) -> dict[str, Any] | None:
        """Return the entry for parity.json."""
        if self.errors:
            return {"version": self.version, **self.errors}
        return {"not_compared": self.why_not} if self.why_not else None


class Disagreement(ValueError):
    """Answers that differ from a library's by more than rounding."""


class _CannotCompare(Exception):
    """A comparison that is not possible; the message has the reason."""


def against_transformers(
    folder: Path,
    family: str,
    encoder: Encoder,
    own_error: Mapping[str, float],
    score_tokens: Sequence[int] = (),
) -> Compared:
    """Return our encoder's largest distance from transformers in eager mode, in float32.

    It is over random texts.

    Args:
        folder: of config.json and weights.
        family: "headlight", or a key of `headlight_export.families.FAMILIES`.
        encoder: ours.
        own_error: its distance in float32 from float64, by output.
        score_tokens: ids of a decoder that scores by the tokens that it would generate.

    Raises:
        Refused: transformers cannot open the folder.
        Disagreement: a distance is beyond rounding: the folder was read wrongly, and must not be
            served.
    """
    if family == OURS:
        return Compared()
    if family in UNKNOWN:
        return Compared(why_not=f"it has no code for {family}, which came with a code of its own")
    if importlib.util.find_spec("transformers") is None:
        return Compared(why_not="it is not installed")
    import transformers  # noqa: PLC0415  (an optional dependency, and seconds to import)

    transformers.logging.set_verbosity_error()
    try:
        model = (
            _open_own_words(folder, encoder.config)
            if family == "nomic_bert" and OWN_SIZES in read_config(folder)
            else _open(folder, encoder.config, generates=bool(score_tokens))
        )
    except _CannotCompare as reason:
        return Compared(why_not=str(reason))
    except Exception as problem:  # transformers raises any type
        words = (
            f"({type(problem).__name__}: {problem!s:.200}); correct the folder, "
            "or export where it is not installed"
        )
        raise Refused(
            f"transformers {transformers.__version__} cannot open {folder} {words}"
        ) from problem
    worst = dict[str, float]()
    for lengths in _batches(encoder.config):
        for output, error in _distances(model, encoder, lengths, score_tokens):
            worst[output] = max(worst.get(output, 0.0), error)
    for output, error in worst.items():
        if not error <= max(FLOOR, SLACK * own_error[output]):
            raise Disagreement(
                f"{output} differ by {error:.3g} from transformers {transformers.__version__}; "
                "this folder is read wrongly, please report its config.json"
            )
    return Compared(worst, transformers.__version__)


def _open(folder: Path, built: EncoderConfig, *, generates: bool) -> Any:
    import transformers  # noqa: PLC0415

    head = built.score_head
    if head is not None and read_config(folder)["model_type"] == POOLED_DECODER:
        raise _CannotCompare(f"it has no code for the head of {POOLED_DECODER}")
    use = "" if head is None else OF_TOKENS if head.each_token else CLASSIFIER
    use = GENERATES if generates else use
    config = config_of(folder)
    if config.model_type in WITH_DECODER:
        use = ENCODER
    if getattr(config, "pad_token_id", None) is None:  # it finds a text's end by the padding
        config.pad_token_id = built.pad_id
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    return (
        getattr(transformers, f"AutoModel{use}")
        .from_pretrained(folder, config=config, trust_remote_code=False, **options)
        .eval()
    )


def config_of(folder: Path) -> Any:
    """Return the config of transformers for a folder. Raises _CannotCompare: it has none."""
    from transformers import AutoConfig  # noqa: PLC0415

    fields = read_config(folder)
    if fields["model_type"] in CONFIGS:
        config = CONFIGS[fields["model_type"]](fields)
    else:
        config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    reads = hasattr(type(config)(), "use_bidirectional_attention")
    says = fields.get("use_bidirectional_attention") and fields.get("is_causal") is None
    if (says and not reads) or bidirectional_by_name(fields):
        config.is_causal = False  # as the folder's own code does, which alone reads these
    return config


def _gte_config(fields: Mapping[str, Any]) -> Any:
    """Return transformers' config of a GTE folder, which may be that of GTE's own code.

    transformers has no "ntk", which is the same as another base and a linear scaling. Raises
    _CannotCompare.
    """
    try:
        from transformers import GteConfig  # noqa: PLC0415
    except ImportError:  # in its first versions 5 and before
        raise _CannotCompare("it has no code for gte yet") from None
    defaults = {"rope_theta": 10_000.0} if fields["model_type"] == "new" else {}
    values = defaults | _values(fields)
    scaling = values.get("rope_scaling") or {}
    if scaling.get("type", scaling.get("rope_type")) == "ntk":
        factor, pairs = scaling["factor"], values["hidden_size"] / values["num_attention_heads"] / 2
        values["rope_scaling"] = None
        values["rope_parameters"] = {
            "rope_type": "linear",
            "rope_theta": values.get("rope_theta", GteConfig.default_theta) * factor,
            "factor": factor ** (1 / pairs),
        }
    return GteConfig(**values)


def _llama_config(fields: Mapping[str, Any]) -> Any:
    """Return transformers' config of a LLaMA whose own code has another model_type."""
    from transformers import LlamaConfig  # noqa: PLC0415

    return LlamaConfig(**_values(fields))


def _values(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a config.json says of the model itself."""
    return {name: value for name, value in fields.items() if name not in ("model_type", "auto_map")}


# Configs of model_types that transformers does not have, or reads in part.
CONFIGS = {"gte": _gte_config, "new": _gte_config, POOLED_DECODER: _llama_config}


def _open_own_words(folder: Path, config: EncoderConfig) -> Any:
    """Open a NomicBERT folder, with its own code's config names translated to transformers' names.

    transformers would use its defaults for them. Raises _CannotCompare.
    """
    try:
        from transformers import NomicBertConfig, NomicBertModel  # noqa: PLC0415
    except ImportError:  # before its version 5
        raise _CannotCompare("it has no code for nomic_bert yet") from None
    if config.rope_fraction != 1 or config.rope_scaling is not None:
        raise _CannotCompare(
            "its code for nomic_bert turns all dimensions, and at any length alike"
        )
    fields = read_config(folder)  # not our own config, which is under test
    values = {
        theirs: fields[name] for name, theirs in WORDS.items() if fields.get(name) is not None
    }
    gate = fields.get("activation_function", "swiglu")
    sizes = NomicBertConfig(
        **values,
        vocab_size=config.vocab_size,  # of the table, which is padded
        hidden_act=GATES.get(gate, gate),
        max_position_embeddings=config.max_length,
        rope_parameters={
            "rope_type": "default",
            "rope_theta": fields.get("rotary_emb_base", 1000.0),
        },
    )
    model, about = NomicBertModel.from_pretrained(
        folder,
        config=sizes,
        attn_implementation="eager",
        dtype=torch.float32,
        output_loading_info=True,
    )
    if missing := sorted(about["missing_keys"]):  # it would fill them with random numbers
        raise _CannotCompare(f"it does not find {missing[0]} under the names that the folder has")
    return model.eval()


def _batches(config: EncoderConfig) -> Iterator[Sequence[int]]:
    """Yield the lengths of texts, one alone or several in a padded batch.

    They go beyond the windows of local layers, as far as maps fit into memory.
    """
    most = longest_with_maps(config)
    longest = min(LONGEST, most)
    lengths = {length for length in lengths_to_try(config) if length <= longest} | {longest}
    if config.local_layers:
        lengths |= {
            length for length in (config.window + 2, 2 * config.window + 3) if length <= most
        }
    if _is_dynamic(config) and config.max_length <= most:
        lengths.add(config.max_length)  # theirs scales a text of this length as we scale all
    yield from ((length,) for length in sorted(lengths))
    yield tuple(min(length, longest) for length in (7, longest, 1))


def _distances(
    model: Any, encoder: Encoder, lengths: Sequence[int], score_tokens: Sequence[int]
) -> Iterator[tuple[str, float]]:
    """Yield the distances of each text of a batch, without its padding."""
    config = encoder.config
    ids = _padded([torch.from_numpy(random_ids(config, n, SEED)) for n in lengths], config.pad_id)
    mask = _padded([torch.ones(n, dtype=torch.int64) for n in lengths])
    inputs_of_lengths = [random_segments(config, n, SEED) for n in lengths]
    segments = (
        None
        if config.segments < 2
        else _padded([torch.from_numpy(one) for one in inputs_of_lengths if one is not None])
    )
    inputs = {"input_ids": ids, "attention_mask": mask} | (
        {} if segments is None else {"token_type_ids": segments}
    )
    if _is_dynamic(config) and ids.shape[1] < config.max_length:
        inputs = _as_padded_to_the_longest(inputs, config)
    with torch.inference_mode():
        scores = None
        if config.score_head is not None:
            scores, model = model(**inputs).logits, model.base_model
            if score_tokens:
                scores = _scores_of_tokens(scores, lengths, score_tokens)
        theirs = model(**inputs, output_attentions=True, output_hidden_states=True)
        ours = encoder(ids, mask, segments=segments, fused=False)
    # Their last hidden state may be after the last norm, ours is before it; tokens compare that.
    rows = [("tokens", ours.tokens, theirs.last_hidden_state)]
    rows += [
        ("hidden", mine, other)
        for mine, other in zip(ours.hidden[:-1], theirs.hidden_states[:-1], strict=True)
    ]
    for at, n in enumerate(lengths):
        for output, mine, other in rows:
            yield output, distance(output, mine[at, :n].numpy(), other[at, :n].numpy())
        if scores is not None:
            logits, kept = ours.heads["logits"], (at, slice(n)) if scores.ndim > 2 else at
            yield "scores", distance("scores", logits[kept].numpy(), scores[kept].numpy())
        for mine, other in zip(ours.attention, theirs.attentions, strict=True):
            yield (
                "attention",
                distance("attention", mine[at, :, :n, :n].numpy(), other[at, :, :n, :n].numpy()),
            )


def _scores_of_tokens(logits: Tensor, lengths: Sequence[int], tokens: Sequence[int]) -> Tensor:
    """Return [B, 1] of logits [B, S, vocabulary]: a token's, less another's, at each text's end."""
    last = logits[torch.arange(len(logits)), torch.tensor(lengths) - 1]
    first, *others = (last[:, [token]] for token in tokens)
    return first - sum(others)


def _is_dynamic(config: EncoderConfig) -> bool:
    """Return whether theirs scales by the current length; ours scales for the longest text.

    Only such folders have "ntk".
    """
    return config.rope_scaling is not None and config.rope_scaling.kind == "ntk"


def _as_padded_to_the_longest(
    inputs: Mapping[str, Tensor], config: EncoderConfig
) -> dict[str, Tensor]:
    """Return a batch's inputs with one more column of padding, at the longest text's last position.

    Theirs scales by a batch's last position. So it scales as if padded to that length, without the
    cost.
    """
    ids = inputs["input_ids"]
    places = torch.arange(ids.shape[1] + 1).expand(len(ids), -1).clone()
    places[:, -1] = config.max_length - 1
    fill = dict.fromkeys(inputs, 0) | {"input_ids": config.pad_id}
    longer = {
        name: torch.nn.functional.pad(value, (0, 1), value=fill[name])
        for name, value in inputs.items()
    }
    return longer | {"position_ids": places}


def _padded(rows: Sequence[Tensor], padding: int = 0) -> Tensor:
    """Pad rows [B] of [n] to [B, longest n]."""
    return pad_sequence(list(rows), batch_first=True, padding_value=padding)

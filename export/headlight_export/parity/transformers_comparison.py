"""Our encoder against the code that a folder was made with, where that is installed."""

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
from headlight_export.folders.model_folder import Refused, read_config
from headlight_export.folders.origin import OURS
from headlight_export.parity.reference import lengths_to_try, longest_with_maps, random_ids, random_segments
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

SEED = 40
FLOOR = 1e-4  # between two implementations in float32; another activation, or another norm, is off by more
SLACK = 40  # times our own rounding error: their angles are float32, which large biases of queries and keys multiply
LONGEST = 128  # tokens; what differs in wiring differs in short texts, or where windows end
UNKNOWN = ("jina_bert",)  # families that transformers has no code for
# In configs of NomicBERT's own code, of which transformers reads the tensors and not the sizes; and its own words for them.
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
    """What came of it.

    Attributes:
        errors: by output ("tokens", "attention", "hidden") the largest distance; empty where nothing was compared.
        version: of transformers.
        why_not: why nothing was compared; empty for a checkpoint of ours, which there is no other code of.
    """

    errors: Mapping[str, float] = dataclasses.field(default_factory=dict)
    version: str = ""
    why_not: str = ""

    def to_json(self) -> dict[str, Any] | None:
        """For parity.json."""
        if self.errors:
            return {"version": self.version, **self.errors}
        return {"not_compared": self.why_not} if self.why_not else None


class _CannotCompare(Exception):
    """For a reason, which is its message."""


def against_transformers(folder: Path, family: str, encoder: Encoder, own_error: Mapping[str, float]) -> Compared:
    """The largest distance of our encoder from transformers in eager mode, in float32, over random texts.

    Args:
        folder: of config.json and weights.
        family: "headlight", or a key of `headlight_export.families.FAMILIES`.
        encoder: ours.
        own_error: its distance in float32 from float64, by output.

    Raises:
        Refused: transformers cannot open the folder.
        ValueError: a distance is more than rounding explains: the folder has been read wrongly, and must not be served.
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
        model = _open_own_words(folder, encoder.config) if "n_embd" in read_config(folder) else _open(folder)
    except _CannotCompare as reason:
        return Compared(why_not=str(reason))
    except Exception as problem:  # of any type, for what it does not understand
        words = f"({type(problem).__name__}: {problem!s:.200}); correct the folder, or export where it is not installed"
        raise Refused(f"transformers {transformers.__version__} cannot open {folder} {words}") from problem
    worst = dict.fromkeys(("tokens", "attention", "hidden"), 0.0)
    for lengths in _batches(encoder.config):
        for output, error in _distances(model, encoder, lengths):
            worst[output] = max(worst[output], error)
    for output, error in worst.items():
        if not error <= max(FLOOR, SLACK * own_error[output]):
            raise ValueError(
                f"{output} differ by {error:.3g} from transformers {transformers.__version__}; this folder is read wrongly, "
                "please report its config.json"
            )
    return Compared(worst, transformers.__version__)


def _open(folder: Path) -> Any:
    from transformers import AutoConfig, AutoModel  # noqa: PLC0415

    config = AutoConfig.from_pretrained(folder, trust_remote_code=False)
    said = read_config(folder)
    if said.get("use_bidirectional_attention") and said.get("is_causal") is None:
        config.is_causal = False  # as code of the folder's own would, which alone reads the former
    options = {"attn_implementation": "eager", "dtype": torch.float32}
    return AutoModel.from_pretrained(folder, config=config, trust_remote_code=False, **options).eval()


def _open_own_words(folder: Path, config: EncoderConfig) -> Any:
    """NomicBERT, the words of its own code put into those of transformers, which would take its defaults. Raises _CannotCompare."""
    try:
        from transformers import NomicBertConfig, NomicBertModel  # noqa: PLC0415
    except ImportError:  # before its version 5
        raise _CannotCompare("it has no code for nomic_bert yet") from None
    if config.rope_fraction != 1 or config.rope_scaling is not None:
        raise _CannotCompare("its code for nomic_bert turns all dimensions, and at any length alike")
    said = read_config(folder)  # not what we made of it: that is what is to be compared
    values = {theirs: said[own] for own, theirs in WORDS.items() if said.get(own) is not None}
    gate = said.get("activation_function", "swiglu")
    sizes = NomicBertConfig(
        **values,
        vocab_size=config.vocab_size,  # of the table, which is padded
        hidden_act=GATES.get(gate, gate),
        max_position_embeddings=config.max_length,
        rope_parameters={"rope_type": "default", "rope_theta": said.get("rotary_emb_base", 1000.0)},
    )
    model, about = NomicBertModel.from_pretrained(
        folder, config=sizes, attn_implementation="eager", dtype=torch.float32, output_loading_info=True
    )
    if missing := sorted(about["missing_keys"]):  # it would take random numbers for them
        raise _CannotCompare(f"it does not find {missing[0]} under the names that the folder has")
    return model.eval()


def _batches(config: EncoderConfig) -> Iterator[Sequence[int]]:
    """The lengths of texts, one alone or several in a padded batch: to beyond what local layers see, as far as maps can be held."""
    most = longest_with_maps(config)
    longest = min(LONGEST, most)
    lengths = {length for length in lengths_to_try(config) if length <= longest} | {longest}
    if config.local_layers:
        lengths |= {length for length in (config.window + 2, 2 * config.window + 3) if length <= most}
    if _is_dynamic(config) and config.max_length <= most:
        lengths.add(config.max_length)  # of which a text alone is scaled as all are here
    yield from ((length,) for length in sorted(lengths))
    yield tuple(min(length, longest) for length in (7, longest, 1))


def _distances(model: Any, encoder: Encoder, lengths: Sequence[int]) -> Iterator[tuple[str, float]]:
    """Of each text of a batch, without its padding."""
    config = encoder.config
    ids = _padded([torch.from_numpy(random_ids(config, n, SEED)) for n in lengths], config.pad_id)
    mask = _padded([torch.ones(n, dtype=torch.int64) for n in lengths])
    found = [random_segments(config, n, SEED) for n in lengths]
    segments = None if config.segments < 2 else _padded([torch.from_numpy(one) for one in found if one is not None])
    inputs = {"input_ids": ids, "attention_mask": mask} | ({} if segments is None else {"token_type_ids": segments})
    if _is_dynamic(config) and ids.shape[1] < config.max_length:
        inputs = _as_padded_to_the_longest(inputs, config)
    with torch.inference_mode():
        theirs = model(**inputs, output_attentions=True, output_hidden_states=True)
        ours = encoder(ids, mask, segments=segments, fused=False)
    # Their last hidden state may be behind the last norm, where ours is in front of it; tokens compare that.
    rows = [("tokens", ours.tokens, theirs.last_hidden_state)]
    rows += [("hidden", mine, other) for mine, other in zip(ours.hidden[:-1], theirs.hidden_states[:-1], strict=True)]
    for at, n in enumerate(lengths):
        for output, mine, other in rows:
            yield output, distance(output, mine[at, :n].numpy(), other[at, :n].numpy())
        for mine, other in zip(ours.attention, theirs.attentions, strict=True):
            yield "attention", distance("attention", mine[at, :, :n, :n].numpy(), other[at, :, :n, :n].numpy())


def _is_dynamic(config: EncoderConfig) -> bool:
    """Whether theirs scales by the length at hand what ours scales for the longest text; no folder has "ntk" otherwise."""
    return config.rope_scaling is not None and config.rope_scaling.kind == "ntk"


def _as_padded_to_the_longest(inputs: Mapping[str, Tensor], config: EncoderConfig) -> dict[str, Tensor]:
    """The inputs of a batch with one more column of padding, at the last place of the longest text that is served.

    Theirs scales by the last place of a batch: as if it were padded as far as that, without the cost.
    """
    ids = inputs["input_ids"]
    places = torch.arange(ids.shape[1] + 1).expand(len(ids), -1).clone()
    places[:, -1] = config.max_length - 1
    fill = dict.fromkeys(inputs, 0) | {"input_ids": config.pad_id}
    longer = {name: torch.nn.functional.pad(value, (0, 1), value=fill[name]) for name, value in inputs.items()}
    return longer | {"position_ids": places}


def _padded(rows: Sequence[Tensor], padding: int = 0) -> Tensor:
    """[B] of [n] -> [B, longest n]."""
    return pad_sequence(list(rows), batch_first=True, padding_value=padding)

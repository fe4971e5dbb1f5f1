"""Our encoder against the code that a folder was made with, where that is installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from export.folder import Refused, read_config
from export.reference import lengths_to_try, random_ids
from headlight.runtime.parity import distance
from model.encoder import Encoder

SEED = 40
FLOOR = 1e-4  # between two implementations in float32; another activation, or another norm, is off by more
SLACK = 40  # times our own rounding error: their angles are float32, which large biases of queries and keys multiply
LONGEST = 128  # tokens; what differs in wiring differs in short texts
OURS = ("headlight", "jina_bert")  # families that transformers has no code for
GPT2_WORD = "n_embd"  # in configs of NomicBERT's own code, of which transformers reads the tensors and not the sizes


def against_transformers(
    folder: Path, family: str, encoder: Encoder, own_error: Mapping[str, float]
) -> dict[str, Any] | None:
    """The largest distance of our encoder from transformers in eager mode, in float32, over random texts.

    Args:
        folder: of config.json and weights.
        family: a key of `export.families.FAMILIES`.
        encoder: ours.
        own_error: its distance in float32 from float64, by output.

    Returns:
        version, and by output ("tokens", "attention", "hidden") the distance; None: transformers is not installed or has no such
        model.

    Raises:
        Refused: transformers cannot open the folder.
        ValueError: a distance is more than rounding explains: the folder has been read wrongly, and must not be served.
    """
    if family in OURS or importlib.util.find_spec("transformers") is None or GPT2_WORD in read_config(folder):
        return None
    import transformers  # noqa: PLC0415  (an optional dependency, and seconds to import)

    transformers.logging.set_verbosity_error()
    try:
        model = transformers.AutoModel.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    except Exception as problem:  # of any type, for what it does not understand
        words = f"({type(problem).__name__}: {problem!s:.200}); correct the folder, or export where it is not installed"
        raise Refused(f"transformers {transformers.__version__} cannot open {folder} {words}") from problem
    worst = dict.fromkeys(("tokens", "attention", "hidden"), 0.0)
    for length in (length for length in lengths_to_try(encoder.config) if length <= LONGEST):
        for output, error in _distances(model, encoder, length):
            worst[output] = max(worst[output], error)
    for output, error in worst.items():
        if not error <= max(FLOOR, SLACK * own_error[output]):
            raise ValueError(
                f"{output} differ by {error:.3g} from transformers {transformers.__version__}; this folder is read wrongly, "
                "please report its config.json"
            )
    return {"version": transformers.__version__, **worst}


def _distances(model: Any, encoder: Encoder, length: int) -> Iterator[tuple[str, float]]:
    ids = torch.from_numpy(random_ids(encoder.config, length, SEED))[None]
    with torch.inference_mode():
        theirs = model(ids, attention_mask=torch.ones_like(ids), output_attentions=True, output_hidden_states=True)
        ours = encoder(ids, fused=False)
    yield "tokens", distance("tokens", ours.tokens.numpy(), theirs.last_hidden_state.numpy())
    for mine, other in zip(ours.attention, theirs.attentions, strict=True):
        yield "attention", distance("attention", mine.numpy(), other.numpy())
    # Their last hidden state may be behind the last norm, where ours is in front of it; tokens compare that.
    for mine, other in zip(ours.hidden[:-1], theirs.hidden_states[:-1], strict=True):
        yield "hidden", distance("hidden", mine.numpy(), other.numpy())

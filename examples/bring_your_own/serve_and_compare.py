"""Steps that both examples share: the task, training, checkpoint, export, service, comparison.

The task: reverse 12 random letters. The answer at place i is the letter at place 11 - i, so a model
without positions cannot solve it.
"""

from __future__ import annotations

import argparse
import string
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tokenizers
import torch
from safetensors.torch import save_file
from tokenizers import models, pre_tokenizers
from torch import Tensor
from torch.nn import functional

from examples.served import served
from headlight import Client
from headlight_export.writer.bundle_writer import export_checkpoint
from headlight_model.checkpoint import renamed
from headlight_model.config import EncoderConfig

SYMBOLS = ("[PAD]", "[UNK]", *string.ascii_lowercase)
FIRST_LETTER, VOCABULARY = 2, len(SYMBOLS)
LENGTH = 12  # letters of a sequence
BATCH = 64
# Largest difference between the service and PyTorch: the exporter's own bound for token vectors.
TOLERANCE = 2e-5
SHOWN = "transformers"  # 12 letters


def run(build: Callable[[], Any], config: EncoderConfig, names: Mapping[str, str | None]) -> int:
    """Train, export, serve and compare a model. Return the exit code: 1 if parity fails.

    Args:
        build: makes the model. Called with ids, the model returns token vectors; `attention` and
            `head` are as in the examples.
        config: its architecture in Headlight's words.
        names: Headlight's names of its tensors; see `renamed`.
    """
    made = argparse.ArgumentParser(description="Train, export, serve and compare with PyTorch.")
    made.add_argument("--steps", type=int, default=1500, help="of training, 1 or more (1500)")
    made.add_argument("--out", type=Path, default=Path("build/bring-your-own"), help="a folder")
    arguments = made.parse_args()
    if arguments.steps < 1:
        made.error(f"--steps is {arguments.steps}; give 1 or more")
    checkpoint, bundle = arguments.out / "checkpoint", arguments.out / "bundle"
    torch.manual_seed(0)
    torch.set_num_threads(1)  # more only slow down so small a model
    model = build()
    train(model, arguments.steps)
    write_checkpoint(checkpoint, config, renamed(model.state_dict(), names))
    # Compared block by block before the bundle is written: `--check-against` of the command.
    exported = export_checkpoint(checkpoint, bundle, check_against=model)
    print(", ".join(f"{stage} {error:.1e}" for stage, error in exported.owner.items()))
    with served(bundle) as target, Client(target) as client:
        return 0 if compare(model, client) else 1


def train(model: Any, steps: int) -> None:
    """Train a model to name the letters in reverse order, and leave it in evaluation mode."""
    begin, optimizer = time.monotonic(), torch.optim.Adam(model.parameters(), lr=1e-3)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=200)
    for _ in range(steps):
        ids = torch.randint(FIRST_LETTER, VOCABULARY, (BATCH, LENGTH))
        scores = model.head(model(ids))  # [B, S, vocabulary]
        loss = functional.cross_entropy(scores.flatten(0, 1), ids.flip(1).flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch has no annotation for it
        optimizer.step()
        warm_up.step()
    model.eval()
    print(f"trained {steps} steps in {time.monotonic() - begin:.0f} s, last loss {loss:.3f}")


def write_checkpoint(folder: Path, config: EncoderConfig, weights: dict[str, Tensor]) -> None:
    """Write the folder that `headlight export` reads, with weights in float32."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(config.to_json(), encoding="utf-8")
    prefixed = {f"encoder.{name}": value.contiguous() for name, value in weights.items()}
    save_file(prefixed, folder / "model.safetensors")
    ids = {symbol: number for number, symbol in enumerate(SYMBOLS)}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(tokenizers.Regex("."), "isolated")
    tokenizer.save(str(folder / "tokenizer.json"))


@torch.inference_mode()
def compare(model: Any, client: Client) -> bool:
    """Print a report of service and PyTorch; return whether they agree within TOLERANCE."""
    random = torch.Generator().manual_seed(1)
    ids = torch.randint(FIRST_LETTER, VOCABULARY, (200, LENGTH), generator=random)
    texts = ["".join(SYMBOLS[number] for number in row) for row in ids.tolist()]
    served = torch.from_numpy(np.stack(client.encode_tokens(texts)))  # [200, S, D]
    computed = model(ids)
    vectors = float((served - computed).abs().max())
    maps = 0.0
    for length in range(1, LENGTH + 1):
        expected = model.attention(ids[:1, :length])[0].numpy()
        apart = np.abs(client.attend(texts[0][:length]).weights - expected).max()
        maps = float(np.maximum(maps, apart))  # NaN stays
    right = [
        float((model.head(x).argmax(-1) == ids.flip(1)).float().mean()) for x in (computed, served)
    ]
    print(f"accuracy on new sequences: {right[0]:.3f} in PyTorch, {right[1]:.3f} served")
    print(f"largest differences: token vectors {vectors:.1e}, attention weights {maps:.1e}")
    attention = client.attend(SHOWN)
    layer, head = np.unravel_index(  # the head that looks most at the mirrored place
        np.trace(attention.weights[..., ::-1], axis1=2, axis2=3).argmax(),
        attention.weights.shape[:2],
    )
    print(f"layer {layer}, head {head}: attention of the letter at place 2 of {SHOWN!r}, in %")
    print("  ".join(f"{piece:>3}" for piece in attention.tokens.pieces))
    print("  ".join(f"{100 * share:3.0f}" for share in attention.weights[layer, head, 2]))
    agree = vectors < TOLERANCE and maps < TOLERANCE  # false for NaN
    print(f"parity {'holds' if agree else 'FAILS'}: the tolerance is {TOLERANCE:.0e}")
    return agree

"""transformers in process, with its eager attention: the way to get whole maps without Headlight.

python -m bench.peers.eager MODEL
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from typing import Any

import torch
from transformers import AutoModel

from bench.attention_forms import random_ids
from bench.peers.worker import answer, timed


def main() -> None:
    model: Any = AutoModel.from_pretrained(sys.argv[1], attn_implementation="eager").eval()

    @torch.inference_mode()
    def attend(lengths: Sequence[int]) -> list[Any]:
        """Return the pooled vectors [B, D] of a batch, and each layer's maps [B, H, S, S]."""
        ids = torch.zeros((len(lengths), max(lengths)), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, length in enumerate(lengths):
            ids[row, :length] = torch.from_numpy(random_ids(length))
            mask[row, :length] = 1
        outputs = model(input_ids=ids, attention_mask=mask, output_attentions=True)
        pooled = (outputs.last_hidden_state * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        vectors = torch.nn.functional.normalize(pooled)
        return [vectors.numpy(), *(maps.numpy() for maps in outputs.attentions)]

    def run(batches: list[list[int]]) -> dict[str, Any]:
        return timed(functools.partial(attend, lengths) for lengths in batches)

    answer({"run": run})


if __name__ == "__main__":
    main()

"""The graphs that fastembed runs, of the models of `bench.peers.vectors`.

    python -m bench.peers.vector_graphs KIND FOLDER MODEL

It writes FOLDER/onnx, with the tokenizer of MODEL; in an environment that has onnx.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from transformers import BertConfig, BertForMaskedLM, BertModel

FILES = ("config.json", "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json")


class Projected(torch.nn.Module):
    """BERT and the layer that projects its token vectors, as a graph."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        named = load_file(folder / "model.safetensors")
        self.bert = BertModel(BertConfig.from_pretrained(folder))
        weights = {name: value for name, value in named.items() if name.startswith("bert.")}
        self.load_state_dict(weights, strict=False)
        self.weight = torch.nn.Parameter(named["linear.weight"])

    def forward(self, input_ids: Any, attention_mask: Any) -> Any:
        """int64 [B, S], twice -> float [B, S, width]; fastembed marks these two alone."""
        tokens = self.bert(input_ids, attention_mask)[0]
        return torch.nn.functional.linear(tokens, self.weight)


class Logits(torch.nn.Module):
    """A masked language model, as a graph."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.model = BertForMaskedLM.from_pretrained(folder)

    def forward(self, input_ids: Any, attention_mask: Any, token_type_ids: Any) -> Any:
        """int64 [B, S], three times -> float [B, S, vocabulary]."""
        return self.model(input_ids, attention_mask, token_type_ids)[0]


def main() -> None:
    kind, folder, model = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    out = folder / "onnx"
    out.mkdir(exist_ok=True)
    ids = torch.ones((2, 7), dtype=torch.int64)
    names = ("input_ids", "attention_mask", "token_type_ids")[: 3 if kind == "sparse" else 2]
    free = {0: "batch", 1: "length"}
    module = (Logits if kind == "sparse" else Projected)(folder).eval()
    torch.onnx.export(
        module,
        (ids, ids, torch.zeros_like(ids))[: len(names)],
        str(out / "model.onnx"),
        input_names=[*names],
        output_names=["output"],
        dynamic_axes=dict.fromkeys((*names, "output"), free),
        opset_version=17,
        dynamo=False,
    )
    for name in FILES:
        shutil.copy(model / name, out / name)


if __name__ == "__main__":
    main()

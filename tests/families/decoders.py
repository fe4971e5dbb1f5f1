"""Decoders of transformers that rerank, with random weights and a chat template."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

from tests.families.models import GROUPED, sharpen
from tests.tokenizers_of_kinds import QWEN

LONGEST = 160  # tokens of a pair
SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
# As of Qwen3-Reranker: an instruction, which a prompt replaces, and an end that is never cut.
CHAT = """<|im_start|>system
Judge the document. Say "yes" or "no".<|im_end|>
<|im_start|>user
<Instruct>: {{ messages | selectattr("role", "eq", "system") | map(attribute="content") | first \
| default("Find it") }}
<Query>: {{ messages | selectattr("role", "eq", "query") | map(attribute="content") | first }}
<Document>: {{ messages | selectattr("role", "eq", "document") | map(attribute="content") | first \
}}<|im_end|>
<|im_start|>assistant
<think>

</think>

"""
# As of mxbai-rerank-v2: what follows the document begins without a special token.
TEXT = """<|im_start|>system
You help.<|im_end|>
<|im_start|>user
query: {query}
document: {document}
You are an expert: 0 or 1.
Relevance:<|im_end|>
<|im_start|>assistant

"""


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer as Qwen's, which has "yes", "no", "0" and "1" as tokens."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    trainer = trainers.BpeTrainer(
        vocab_size=380,
        special_tokens=[*SPECIAL],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CHAT, TEXT, "yes\nno\nyes\nno\nred.\nblue.\n"] * 3, trainer)
    return tokenizer


def write_decoder(
    folder: Path,
    kind: str,
    use: str,
    *,
    chat: str | None = None,
    values: Mapping[str, Any] | None = None,
) -> Any:
    """Write a decoder with a tokenizer, and return it.

    Args:
        folder: created.
        kind: of its config: "Qwen2", "Gemma3Text", ...
        use: "CausalLM" or "SequenceClassification".
        chat: its chat template; None: none.
        values: further values of its config.
    """
    tokenizer = byte_tokenizer()
    torch.manual_seed(11)
    config = getattr(transformers, f"{kind}Config")(
        **GROUPED
        | {"vocab_size": tokenizer.get_vocab_size(), "max_position_embeddings": LONGEST}
        | {"num_hidden_layers": 2, **(values or {})}
    )
    config._attn_implementation = "eager"
    model = getattr(transformers, f"AutoModelFor{use}").from_config(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
            else:
                parameter.mul_(40.0 if name == "score.weight" else 3.0)
        sharpen(model, 0.62)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_max_length=LONGEST,
        pad_token=SPECIAL[0],
        eos_token=SPECIAL[2],
        chat_template=chat,
        model_input_names=["input_ids", "attention_mask"],
    ).save_pretrained(folder)
    return model

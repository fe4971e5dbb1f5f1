"""Folders that sentence-transformers itself saved.

Our reading of them, and vectors by that reading compared with its own; poolings and prompts:
test_sentences.py.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import tokenizers
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Dense, Normalize, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, LayerNorm, Pooling
from tokenizers import models, pre_tokenizers
from torch import Tensor
from transformers import BertConfig, BertModel, BertTokenizer, PreTrainedTokenizerFast

from headlight.runtime.tokenization.tokenizer import Tokenizer
from headlight_export.folders.model_folder import Refused, read_config, read_tensors
from headlight_export.folders.sentence_folder import Recipe, read_recipe
from headlight_export.tokenizers.tokenizer_file import tokenizer_json

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    "hello",
    "world",
    "Hello",
    "##s",
    "query",
    ":",
    "the",
    "fox",
    ",",
    ".",
]
TEXTS = ("hello world", "  the fox, hello worlds.  ", "fox", "Hello " * 30)
WIDTH = 12


@pytest.fixture
def base(tmp_path: Path) -> Path:
    """Return a random BERT with 24 positions, and its cased tokenizer."""
    folder = tmp_path / "base"
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    BertTokenizer.from_pretrained(folder, do_lower_case=False).save_pretrained(folder)
    (folder / "vocab.txt").unlink()
    torch.manual_seed(0)
    sizes = {
        "hidden_size": WIDTH,
        "num_hidden_layers": 2,
        "num_attention_heads": 3,
        "intermediate_size": 20,
    }
    model = BertModel(BertConfig(vocab_size=len(WORDS), max_position_embeddings=24, **sizes))
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    model.save_pretrained(folder)
    return folder


def saved(folder: Path, modules: Sequence[Any], **settings: Any) -> SentenceTransformer:
    """Save a model, and load it again as its users would."""
    SentenceTransformer(modules=list(modules), **settings).save(
        str(folder), create_model_card=False
    )
    return SentenceTransformer(str(folder), device="cpu")


def pool(tokens: Tensor, kept: Tensor, mode: str) -> Tensor:
    """Return the vector [dim] of one text from its vectors [n, dim]; `kept` bool [n] take part.

    By the definition of each pooling.
    """
    rows = tokens[kept]
    place = torch.arange(1.0, len(tokens) + 1)[kept, None]
    vectors: dict[str, Tensor] = {
        "mean": rows.mean(0),
        "cls": rows[0],
        "max": rows.max(0).values,
        "last": rows[-1],
        "weighted_mean": (rows * place).sum(0) / place.sum(),
        "mean_sqrt_len": rows.sum(0) / len(rows) ** 0.5,
    }
    return vectors[mode]


def encode(recipe: Recipe, text: str, prompt: str = "") -> Tensor:
    """Apply the recipe, with transformers for the Transformer."""
    file = tokenizer_json(recipe.transformer, lower_case=recipe.lower_case)
    assert file is not None
    assert recipe.pooling is not None
    path = recipe.transformer / "headlight.json"
    path.write_text(file, encoding="utf-8")
    tokenizer = Tokenizer(path, recipe.max_length or 10**9, include_prompt=recipe.include_prompt)
    read = tokenizer.encode(text, prompt=prompt, truncation="cut_end")
    ids = read.ids.tolist()
    model = BertModel(BertConfig(**read_config(recipe.transformer))).eval()
    model.load_state_dict(read_tensors(recipe.transformer))
    with torch.no_grad():
        tokens = model(input_ids=torch.tensor([ids])).last_hidden_state[0]
    kept = torch.arange(len(ids)) >= read.left_out
    vector: Tensor = pool(tokens, kept, recipe.pooling)
    for layer in recipe.dense:
        vector = torch.nn.functional.linear(vector, layer.weight, layer.bias)
        vector = (
            vector
            if layer.activation == "identity"
            else getattr(torch.nn.functional, layer.activation)(vector)
        )
    vector = torch.nn.functional.normalize(vector, dim=0) if recipe.normalize else vector
    return vector[: recipe.truncate_dim]


def agree(recipe: Recipe, model: SentenceTransformer, prompt: str = "") -> None:
    theirs = model.encode(list(TEXTS), prompt=prompt or None, convert_to_tensor=True)
    for text, vector in zip(TEXTS, theirs, strict=True):
        torch.testing.assert_close(encode(recipe, text, prompt), vector, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", ["ReLU", "GELU", "SiLU", "Sigmoid"])
def test_dense_and_normalize_match(base: Path, tmp_path: Path, name: str) -> None:
    layers = [
        Dense(WIDTH, 20, activation_function=getattr(torch.nn, name)()),
        Dense(20, 7, bias=False, activation_function=None),
    ]
    model = saved(
        tmp_path / "saved",
        [Transformer(str(base)), Pooling(WIDTH), Dropout(0.5), *layers, Normalize()],
        truncate_dim=4,
    )
    recipe = read_recipe(tmp_path / "saved")
    assert [layer.activation for layer in recipe.dense] == [name.lower(), "identity"]
    assert [tuple(layer.weight.shape) for layer in recipe.dense] == [(20, WIDTH), (7, 20)]
    assert [layer.bias is None for layer in recipe.dense] == [False, True]
    assert recipe.normalize
    assert recipe.truncate_dim == 4
    assert recipe.dimensions == (4,)
    agree(recipe, model)


def test_a_configured_length_is_read(base: Path, tmp_path: Path) -> None:
    model = SentenceTransformer(modules=[Transformer(str(base)), Pooling(WIDTH)])
    model.max_seq_length = 9
    model.save(str(tmp_path / "saved"), create_model_card=False)
    recipe = read_recipe(tmp_path / "saved")
    again = SentenceTransformer(str(tmp_path / "saved"), device="cpu")
    assert recipe.max_length == again.max_seq_length == 9
    agree(recipe, again)


@pytest.mark.parametrize("length", [None, 9])
def test_settings_of_older_versions_are_read(
    base: Path, tmp_path: Path, length: int | None
) -> None:
    folder = tmp_path / "saved"
    saved(folder, [Transformer(str(base)), Pooling(WIDTH, "mean")])
    (folder / "sentence_bert_config.json").unlink()
    old = {"max_seq_length": length, "do_lower_case": True}
    (folder / "sentence_roberta_config.json").write_text(json.dumps(old))
    switches = {
        "pooling_mode_cls_token": False,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_max_tokens": True,
    }
    (folder / "1_Pooling/config.json").write_text(
        json.dumps({"word_embedding_dimension": WIDTH} | switches)
    )
    modules = json.loads((folder / "modules.json").read_text())
    for module in modules:
        module["type"] = "sentence_transformers.models." + module["type"].rpartition(".")[2]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "config_sentence_transformers.json").write_text("{}")
    model = SentenceTransformer(str(folder), device="cpu")
    recipe = read_recipe(folder)
    assert recipe.pooling == "max"
    assert recipe.lower_case
    assert recipe.max_length == model.max_seq_length == (length or 24)
    agree(recipe, model)
    agree(recipe, model, prompt="Hello ")


def test_a_plain_transformers_folder_has_no_pooling(base: Path) -> None:
    recipe = read_recipe(base)
    model = SentenceTransformer(str(base), device="cpu")
    assert recipe.pooling is None
    assert recipe.transformer == base
    assert recipe.max_length == model.max_seq_length == 24


def test_surrounding_white_space_is_treated_as_in_the_library(base: Path, tmp_path: Path) -> None:
    """WordPiece drops it, byte-level tokenizers keep it.

    Older versions of the library stripped it.
    """
    letters = {letter: i for i, letter in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    plain = tokenizers.Tokenizer(models.BPE(vocab=letters, merges=[]))
    plain.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    BertModel(BertConfig.from_pretrained(base, vocab_size=256)).save_pretrained(base)
    PreTrainedTokenizerFast(tokenizer_object=plain, pad_token="!").save_pretrained(base)
    model = saved(tmp_path / "saved", [Transformer(str(base)), Pooling(WIDTH)])
    recipe = read_recipe(tmp_path / "saved")
    file = tokenizer_json(recipe.transformer, lower_case=recipe.lower_case)
    assert file is not None
    for text in (" a", "a ", "\n a \t", "a"):
        ids = model.preprocess([text])["input_ids"][0].tolist()
        assert tokenizers.Tokenizer.from_str(file).encode(text).ids == ids
        assert len(ids) == len(text)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sharded_tensors_equal_those_of_one_file(
    base: Path, tmp_path: Path, dtype: torch.dtype
) -> None:
    BertModel.from_pretrained(base, dtype=dtype).save_pretrained(
        tmp_path / "many", max_shard_size="4KB"
    )
    assert len(list((tmp_path / "many").glob("*.safetensors"))) > 1
    many, one = read_tensors(tmp_path / "many"), read_tensors(base)
    assert set(many) == set(one)
    assert all(torch.equal(many[name], one[name].to(dtype).float()) for name in one)


def test_unsupported_folders_are_refused_by_name(base: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    saved(first, [Transformer(str(base)), Pooling(WIDTH), LayerNorm(WIDTH)])
    with pytest.raises(Refused, match="LayerNorm cannot be served"):
        read_recipe(first)
    saved(second, [Transformer(str(base)), Pooling(WIDTH, ("mean", "max"))])
    with pytest.raises(Refused, match="several modes"):
        read_recipe(second)

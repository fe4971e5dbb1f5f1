"""Batches. Each is a pure function of seed and step, so a resumed run sees what an unbroken one would have seen."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.train.data import corpus, tasks
from headlight_model.train.data.corpus import Part
from headlight_model.train.data.tokenizer import CLS_ID, MASK_ID, PAD_ID, SEP_ID, SPECIALS
from headlight_model.train.objectives import IGNORED
from headlight_model.train.recipe import Recipe

# Of the tokens asked for 80 % are shown as [MASK], 10 % as a random one and 10 % as they are (Devlin et al. 2018, 3.1).
MASKED_SHARE = 0.15
ROWS = 32  # sentences or functions encoded together
WINDOWS, MASKING, PAIRS, HELD_OUT, WORDS = range(5)  # independent random streams of one seed


@dataclasses.dataclass(frozen=True)
class Pairs:
    """Questions and what answers them, tokenised. Row i of each belongs together."""

    queries: list[list[int]]
    documents: list[list[int]]


@dataclasses.dataclass(frozen=True)
class Data:
    """One part of the corpus: all its source as one stream of ids, [SEP] after each text, and its pairs by task."""

    stream: NDArray[np.int64]
    pairs: dict[str, Pairs]  # by the names in tasks.TASKS


def prepare(tokenizer: Tokenizer, recipe: Recipe, part: Part) -> Data:
    """Tokenise one part of the corpus."""
    texts = [source.text for source in corpus.sources() if corpus.part_of(source.module) is part]
    stream: list[int] = []
    for encoding in tokenizer.encode_batch(texts, add_special_tokens=False):
        stream += [*encoding.ids, SEP_ID]
    pairs = {
        task: Pairs(
            encode(tokenizer, [query for query, _ in found], recipe.sentence_length),
            encode(tokenizer, [document for _, document in found], recipe.document_length),
        )
        for task, found in tasks.pairs(part).items()
    }
    return Data(np.array(stream, dtype=np.int64), pairs)


def encode(tokenizer: Tokenizer, texts: Sequence[str], length: int) -> list[list[int]]:
    """Ids of each text with [CLS] and [SEP], cut to `length` tokens in all."""
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [[CLS_ID, *encoding.ids[: length - 2], SEP_ID] for encoding in encodings]


def windows(stream: NDArray[np.int64], count: int, length: int, random: np.random.Generator) -> NDArray[np.int64]:
    """`count` windows from anywhere in the stream, each [CLS] ... [SEP]: int64 [count, length]."""
    starts = random.integers(0, len(stream) - (length - 2) + 1, size=count)
    inner = stream[starts[:, None] + np.arange(length - 2)[None, :]]
    return np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (CLS_ID, SEP_ID)))


def corrupt(ids: NDArray[np.int64], vocab_size: int, random: np.random.Generator) -> tuple[Tensor, Tensor]:
    """Hide tokens of int64 [B, S]; special tokens are never hidden.

    Returns:
        The corrupted ids and the labels, both int64 [B, S]; a label is the true id where asked for, IGNORED elsewhere.
    """
    asked = (random.random(ids.shape) < MASKED_SHARE) & (ids >= len(SPECIALS))
    fate = random.random(ids.shape)
    replaced = random.integers(len(SPECIALS), vocab_size, size=ids.shape)
    shown = np.where(fate < 0.8, MASK_ID, np.where(fate < 0.9, replaced, ids))
    return torch.from_numpy(np.where(asked, shown, ids)), torch.from_numpy(np.where(asked, ids, IGNORED))


def masked_batch(data: Data, recipe: Recipe, vocab_size: int, seed: int, step: int) -> tuple[Tensor, Tensor]:
    """Ids and labels (see `corrupt`) of one step: windows of one length, so that none needs padding."""
    random = np.random.default_rng([seed, WINDOWS, step])
    length = int(random.choice(recipe.lengths))
    ids = windows(data.stream, recipe.window_tokens // length, length, random)
    return corrupt(ids, vocab_size, np.random.default_rng([seed, MASKING, step]))


def pair_batch(
    data: Data, count: int, random: np.random.Generator, drop: float = 0.0
) -> tuple[list[list[int]], list[list[int]]]:
    """Queries and documents of one task, drawn by the shares in tasks.TASKS; all of it where it has fewer than `count`.

    Args:
        drop: the share of tokens left out at random; [CLS] and [SEP] stay.
    """
    names = [task for task in tasks.TASKS if len(data.pairs[task].queries) > 1]
    shares = np.array([tasks.TASKS[task] for task in names])
    pairs = data.pairs[names[random.choice(len(names), p=shares / shares.sum())]]
    chosen = random.choice(len(pairs.queries), size=min(count, len(pairs.queries)), replace=False)
    queries, documents = ([side[row] for row in chosen] for side in (pairs.queries, pairs.documents))
    return thin(queries, drop, random), thin(documents, drop, random)


def thin(rows: list[list[int]], drop: float, random: np.random.Generator) -> list[list[int]]:
    """The rows without a share `drop` of their inner tokens, drawn at random."""
    if not drop:
        return rows
    return [[row[0], *(token for token in row[1:-1] if random.random() >= drop), row[-1]] for row in rows]


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Ids int64 [B, S] padded on the right to the longest row, and the mask bool [B, S]."""
    ids = torch.full((len(rows), max(map(len, rows))), PAD_ID, dtype=torch.int64)
    for index, row in enumerate(rows):
        ids[index, : len(row)] = torch.tensor(row)
    return ids, ids != PAD_ID


def embed(encoder: Encoder, rows: Sequence[Sequence[int]]) -> tuple[Tensor, int]:
    """Pooled vectors, float32 [N, D] in the order of `rows`, and the tokens computed for them, padding included.

    Rows of like length go together: padding the shortest to the longest would cost several times the work.
    """
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    batches = [pad([rows[row] for row in order[start : start + ROWS]]) for start in range(0, len(rows), ROWS)]
    pooled = torch.cat([encoder(ids, mask).pooled for ids, mask in batches])  # [N, D] in sorted order
    return pooled[torch.tensor(order).argsort()], sum(ids.numel() for ids, _ in batches)


def equal_texts(queries: Sequence[Sequence[int]], documents: Sequence[Sequence[int]]) -> Tensor:
    """bool [B, B]: True where pairs i and j share a query or a document, so that neither is wrong for the other."""
    asks, answers = numbered(queries), numbered(documents)  # [B] each
    return (asks[:, None] == asks) | (answers[:, None] == answers)


def numbered(rows: Sequence[Sequence[int]]) -> Tensor:
    """int64 [B]: equal numbers for equal rows."""
    numbers: dict[tuple[int, ...], int] = {}
    return torch.tensor([numbers.setdefault(tuple(row), len(numbers)) for row in rows])

"""Training batches.

Each is a pure function of seed and step, so a resumed run sees the same as an unbroken one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import compress

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor

from headlight_model.encoder import Encoder
from headlight_model.texts.corpus import STDLIB, Part, Source
from headlight_model.texts.functions import DEFINITION, NAME_WEIGHT
from headlight_model.train.data import packages, tasks
from headlight_model.train.data.stored import Data, Ids, Pairs, Rows
from headlight_model.train.data.tasks import TextPairs
from headlight_model.train.data.tokenizer import CLS_ID, PAD_ID, SEP_ID
from headlight_model.train.recipe import Recipe

ROWS = 64  # sentences or functions encoded together
# Independent random streams of one seed; 6 is of the reranker.
WINDOWS, PAIRS, HELD_OUT, WORDS, ORDER, NEAR = range(6)
TEACHER = 7
# Limit of each package's source in the stream, so that no package dominates.
STREAM_CHARACTERS = 800_000


def prepare(
    tokenizer: Tokenizer, recipe: Recipe, part: Part, pairs: TextPairs | None = None
) -> Data:
    """Tokenise one part of the corpus. `pairs`: those of that part, if they are known already."""
    chosen = packages.everything(recipe.packages)
    tokenised = {
        task: Pairs(
            Rows.of(encode(tokenizer, [query for query, _ in texts], recipe.sentence_length)),
            Rows.of(encode(tokenizer, [document for _, document in texts], recipe.document_length)),
        )
        for task, texts in (tasks.pairs(chosen, part) if pairs is None else pairs).items()
    }
    stream = source_stream(tokenizer, (each for each in chosen if each.part is part))
    begin, end = (tokenizer.token_to_id(mark) or PAD_ID for mark in (DEFINITION, "("))
    return Data(stream, tokenised, (begin, end))


def source_stream(tokenizer: Tokenizer, chosen: Iterable[Source]) -> Ids:
    """Return source as one stream of ids, [SEP] after each text."""
    texts = [source.text for source in stream_sources(chosen)]
    return Rows.of(
        [*encoding.ids, SEP_ID]
        for encoding in tokenizer.encode_batch(texts, add_special_tokens=False)
    ).ids


def stream_sources(chosen: Iterable[Source]) -> list[Source]:
    """Return the standard library, and of each package files up to about STREAM_CHARACTERS.

    Files are taken in the order of a hash of their names.
    """
    kept, used = [], Counter[str]()
    for source in sorted(
        chosen, key=lambda source: hashlib.sha256(source.module.encode()).digest()
    ):
        if source.package == STDLIB or used[source.package] < STREAM_CHARACTERS:
            kept.append(source)
            used[source.package] += len(source.text)
    return kept


def encode(tokenizer: Tokenizer, texts: Sequence[str], length: int) -> list[list[int]]:
    """Return the ids of each text with [CLS] and [SEP], truncated to `length` tokens in all."""
    encodings = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    return [[CLS_ID, *encoding.ids[: length - 2], SEP_ID] for encoding in encodings]


def windows(
    stream: NDArray[np.integer], count: int, length: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Return `count` windows from anywhere in the stream: int64 [count, length].

    Each is [CLS] ... [SEP].
    """
    starts = random.integers(0, len(stream) - (length - 2) + 1, size=count)
    inner = stream[starts[:, None] + np.arange(length - 2)[None, :]].astype(np.int64)
    return np.pad(inner, ((0, 0), (1, 1)), constant_values=((0, 0), (CLS_ID, SEP_ID)))


def pair_batch(
    data: Data, count: int, random: np.random.Generator, drop: float = 0.0, run: int = 1
) -> tuple[list[list[int]], list[list[int]]]:
    """Draw queries and documents of one task, which is chosen by the shares in tasks.TASKS.

    Return all of its pairs if it has fewer than `count`.

    Args:
        drop: the share of tokens left out at random; [CLS] and [SEP] stay.
        run: number of consecutive pairs drawn together. They are mostly from one module, which
            makes them the hardest wrong answers for each other.
    """
    task, rows = draw_rows(data, tasks.TASKS, count, random, run)
    return texts_of(data, task, rows, random, drop)


def draw_rows(
    data: Data, among: Iterable[str], count: int, random: np.random.Generator, run: int = 1
) -> tuple[str, list[int]]:
    """Draw a task and the rows of `count` of its pairs, see `pair_batch`."""
    names = [task for task in among if len(data.pairs[task].queries) > 1]
    shares = np.array([tasks.TASKS[task] for task in names])
    task = names[random.choice(len(names), p=shares / shares.sum())]
    size = len(data.pairs[task].queries)
    runs = -(-size // run)
    starts = random.choice(runs, size=min(-(-count // run), runs), replace=False) * run
    return task, [row for start in starts for row in range(start, min(start + run, size))]


def texts_of(
    data: Data, task: str, rows: Iterable[int], random: np.random.Generator, drop: float = 0.0
) -> tuple[list[list[int]], list[list[int]]]:
    """Return queries and documents of some pairs, thinned, see `pair_batch`."""
    pairs, marks = data.pairs[task], data.name_marks
    queries, documents = ([side[row] for row in rows] for side in (pairs.queries, pairs.documents))
    return thin(queries, drop, random, marks), thin(documents, drop, random, marks)


def thin(
    rows: list[list[int]], drop: float, random: np.random.Generator, marks: Sequence[int] = ()
) -> list[list[int]]:
    """Return the rows without a random share `drop` of their inner tokens; `marks` stay."""
    if not drop:
        return rows
    kept = ((random.random(len(row) - 2) >= drop) | np.isin(row[1:-1], marks) for row in rows)
    return [
        [row[0], *compress(row[1:-1], keep), row[-1]] for row, keep in zip(rows, kept, strict=True)
    ]


def name_weights(row: Sequence[int], marks: tuple[int, int]) -> NDArray[np.float32]:
    """Return NAME_WEIGHT for each token of the name of a document, 1 for others: float32 [S].

    The name stands between the first of each of the `marks`; a text without both has none.
    """
    weights = np.ones(len(row), dtype=np.float32)
    begin, end = marks
    if begin in row and end in row:
        weights[row.index(begin) + 1 : row.index(end)] = NAME_WEIGHT
    return weights


def pad(rows: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
    """Return ids int64 [B, S] padded on the right to the longest row, and the mask bool [B, S]."""
    padded = np.full((len(rows), max(map(len, rows))), PAD_ID, dtype=np.int64)
    for index, row in enumerate(rows):
        padded[index, : len(row)] = row
    ids = torch.from_numpy(padded)
    return ids, ids != PAD_ID


def embed(
    encoder: Encoder, rows: Sequence[Sequence[int]], *, bfloat16: bool = False
) -> tuple[Tensor, int]:
    """Return pooled vectors, float32 [N, D] in the order of `rows`, and the number of tokens.

    Tokens include padding.

    Rows of similar length share a batch: padding the shortest to the longest would cost several
    times the work.

    Args:
        bfloat16: the matrix products of the blocks are computed in it; pooling never is.
    """
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    pooled, tokens = [], 0
    for start in range(0, len(rows), ROWS):
        ids, mask = pad([rows[row] for row in order[start : start + ROWS]])
        with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
            vectors = encoder(ids, mask, fused=False).tokens
        pooled.append(encoder.pool(vectors, mask))
        tokens += ids.numel()
    return torch.cat(pooled)[torch.tensor(order).argsort()], tokens


def bag_of_words(
    encoder: Encoder,
    rows: Sequence[Sequence[int]],
    marks: tuple[int, int] = (PAD_ID, PAD_ID),
) -> Tensor:
    """Return pooled vectors of the embeddings alone, without blocks: float [N, D].

    The encoder pools by the mean, weighted as `name_weights` says.
    """
    table = encoder.embed(torch.arange(encoder.config.vocab_size), None)  # [V, D]
    lengths = np.array([len(row) for row in rows])
    # [N, V]: a product is faster than gathering rows
    counts = np.zeros((len(rows), len(table)), dtype=np.float32)
    np.add.at(
        counts,
        (np.repeat(np.arange(len(rows)), lengths), np.concatenate([*map(np.array, rows)])),
        np.concatenate([name_weights(row, marks) for row in rows]),
    )
    words = torch.from_numpy(counts / counts.sum(axis=1, keepdims=True)) @ table
    state = encoder.positions.prepare(torch.arange(int(lengths.max())).unsqueeze(0))
    # [S, D]
    places = encoder.positions.embed(torch.zeros(1, int(lengths.max()), words.shape[1]), state)[0]
    means = places.cumsum(dim=0) / torch.arange(1, len(places) + 1)[:, None]
    summed = (words + means[torch.from_numpy(lengths - 1)]).unsqueeze(1)  # [N, 1, D]
    return encoder.pool(summed, torch.ones(summed.shape[:2], dtype=torch.bool))


def equal_texts(queries: Sequence[Sequence[int]], documents: Sequence[Sequence[int]]) -> Tensor:
    """Return bool [B, B]: True where pairs i and j share a query or a document.

    Neither is then a wrong answer for the other.
    """
    asks, answers = numbered(queries), numbered(documents)  # [B] each
    return (asks[:, None] == asks) | (answers[:, None] == answers)


def numbered(rows: Sequence[Sequence[int]]) -> Tensor:
    """Return int64 [B]: equal numbers for equal rows."""
    numbers: dict[tuple[int, ...], int] = {}
    return torch.tensor([numbers.setdefault(tuple(row), len(numbers)) for row in rows])

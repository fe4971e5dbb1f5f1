"""Word vectors: starting values, and a first, short training.

In it they match pairs of texts as bags of words. A Transformer that starts from them finds
functions far better than one that has to learn the meanings of words on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import snowballstemmer
import torch
from torch import Tensor
from torch.nn import functional

from headlight_model.encoder import Encoder
from headlight_model.train.data import tasks
from headlight_model.train.data.batches import (
    WORDS,
    bag_of_words,
    draw_rows,
    equal_texts,
    name_weights,
    pad,
    pair_batch,
    texts_of,
)
from headlight_model.train.data.stored import Data
from headlight_model.train.initial import word_scale
from headlight_model.train.objectives import distillation_loss, nested_loss
from headlight_model.train.recipe import Recipe
from headlight_model.train.teacher import Lessons

OWN_SHARE = 0.4  # weight of a piece's own vector beside that of its stem
TOKEN_SHARE = 0.1  # weight of the distance of tokens beside that of texts
INNER = "##"  # begins a piece that continues a word


def starting_vectors(
    pieces: Sequence[str], data: Data, dim: int, taught: Tensor | None = None
) -> Tensor:
    """Return random vectors: close for pieces of one stem, longer for rarer pieces.

    Those of a teacher keep their directions, less what all have in common.

    Args:
        pieces: of the vocabulary, in the order of their ids.
        dim: width of the vectors.
        taught: a teacher's vectors of the pieces, [V, dim]; None: random ones.

    Returns:
        float [V, dim]; the rarest piece has length 1, the others in proportion to their inverse
        document frequency (the form of Robertson and Zaragoza 2009, "The probabilistic relevance
        framework", 3.1, kept above 0).
    """
    stem = snowballstemmer.stemmer("english").stemWord
    stems = [piece if piece.startswith(INNER) else stem(piece) for piece in pieces]
    numbers = {name: number for number, name in enumerate(dict.fromkeys(stems))}
    shared = torch.randn(len(numbers), dim)[[numbers[name] for name in stems]]
    texts = [
        row
        for pairs in data.pairs.values()
        for rows in (pairs.queries, pairs.documents)
        for row in rows
    ]
    with_piece = document_frequencies(texts, len(pieces))
    rarity = torch.log1p((len(texts) - with_piece + 0.5) / (with_piece + 0.5))
    directions = functional.normalize(shared + OWN_SHARE * torch.randn(len(pieces), dim), dim=1)
    if taught is not None:
        directions = functional.normalize(taught - taught.mean(dim=0), dim=1)
    return directions * (rarity / rarity.max()).unsqueeze(1)


def document_frequencies(texts: Iterable[Sequence[int]], vocab_size: int) -> Tensor:
    """Return in how many texts each id occurs: float [V]."""
    count = np.zeros(vocab_size)
    for text in texts:
        count[list(set(text))] += 1
    return torch.from_numpy(count).float()


def learn_words(
    encoder: Encoder, data: Data, recipe: Recipe, seed: int, lessons: Lessons | None = None
) -> None:
    """Train the embeddings of an initialised encoder on the pairs, as bags of words.

    `lessons`: of a teacher that the bags of words learn from.
    """
    optimizer = torch.optim.Adam([encoder.embedding.weight], fused=True)
    for step in range(recipe.word_steps):
        for group in optimizer.param_groups:
            group["lr"] = recipe.word_rate * word_scale(encoder) * (1 - step / recipe.word_steps)
        loss, _ = words_loss(encoder, data, recipe, seed, step, lessons)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()


def words_loss(
    encoder: Encoder,
    data: Data,
    recipe: Recipe,
    seed: int,
    step: int,
    lessons: Lessons | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the loss of one step's pairs as bags of words, and the share found: two scalars.

    With `lessons`, the second is the mean cosine with the teacher's vectors.
    """
    random = np.random.default_rng([seed, WORDS, step])
    if lessons is not None:
        queries, documents, taught = lesson_batch(data, lessons, recipe.word_pairs, random, recipe)
    else:
        queries, documents = pair_batch(
            data, recipe.word_pairs, random, recipe.drop_tokens, recipe.run
        )
    query_vectors, document_vectors = (
        bag_of_words(encoder, rows, data.name_marks) for rows in (queries, documents)
    )
    same = equal_texts(queries, documents)
    if lessons is not None:
        return distillation_loss((query_vectors, document_vectors), taught, same, recipe)
    return nested_loss(query_vectors, document_vectors, same, recipe.temperature, recipe.widths)


def lesson_batch(
    data: Data, lessons: Lessons, count: int, random: np.random.Generator, recipe: Recipe
) -> tuple[list[list[int]], list[list[int]], tuple[Tensor, Tensor]]:
    """Draw queries and documents as `pair_batch` does, with their vectors by a teacher."""
    among = [task for task in tasks.TASKS if f"{task}.queries" in lessons]
    task, rows = draw_rows(data, among, count, random, recipe.run)
    queries, documents = texts_of(data, task, rows, random, recipe.drop_tokens)
    queries_taught, documents_taught = (
        torch.from_numpy(lessons[f"{task}.{side}"][rows]).float()
        for side in ("queries", "documents")
    )
    return queries, documents, (queries_taught, documents_taught)


def distance_from_words(
    encoder: Encoder, rows: Sequence[Sequence[int]], marks: tuple[int, int], *, bfloat16: bool
) -> tuple[Tensor, Tensor, int]:
    """Return how far text vectors are from those of their words, with names weighted more.

    Blocks that stay near must learn which tokens are the name, and keep what words mean.

    Args:
        rows: token ids of the texts.
        marks: the pieces around a name, see `name_weights`.
        bfloat16: the matrix products of the blocks are computed in it.

    Returns:
        Two scalars and the number of tokens, with padding. The first scalar is the loss: 1 minus
        the mean cosine of the texts, plus TOKEN_SHARE times the squared distance of tokens divided
        by their squared length. The second is the mean cosine.
    """
    ids, mask = pad(rows)
    weights = torch.ones(ids.shape)
    for place, row in enumerate(rows):
        weights[place, : len(row)] = torch.from_numpy(name_weights(row, marks))
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        output = encoder(ids, mask, fused=False)
    with torch.no_grad():
        words = output.hidden[0] * (weights * mask).unsqueeze(-1)
        expected = encoder.pool(words, mask)
    cosine = (encoder.pool(output.tokens, mask) * expected).sum(dim=1).mean()
    apart = (output.tokens - words).square().sum() / words.square().sum()
    return 1 - cosine + TOKEN_SHARE * apart, cosine.detach(), ids.numel()

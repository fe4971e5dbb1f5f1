"""Training losses: matching texts, order, hidden and replaced tokens.

Matching texts hardly needs order: a bag of words does nearly as well. The others need it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.layers.pooling import unit_length
from headlight_model.train.data.altered import IGNORED, Altered
from headlight_model.train.recipe import Recipe, TaughtHead

LEAST_WEIGHT = 1e-6  # on wanted keys: below it the logarithm would be unbounded
LEAST_APART = 1e-4  # squared distance of two vectors of the same words; below it is rounding


class MaskedTokenHead(nn.Module):
    """Head that guesses tokens from the first `dim` dimensions of their vectors.

    Its output weights are the same dimensions of the embedding.

    Norm, then the head of Devlin et al. 2018: dense, GELU, norm, the transposed embedding plus a
    bias.
    """

    def __init__(self, config: EncoderConfig, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.norm_in = nn.LayerNorm(dim, eps=config.norm_eps)
        self.dense = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=config.norm_eps)
        self.bias = nn.Parameter(torch.zeros(config.vocab_size))

    def forward(self, tokens: Tensor, embedding: Tensor) -> Tensor:
        """float [N, D] and the encoder's embedding [V, D] -> logits [N, V]."""
        hidden = self.norm(functional.gelu(self.dense(self.norm_in(tokens[:, : self.dim]))))
        return functional.linear(hidden, embedding[:, : self.dim], self.bias)


class ReplacedTokenHead(nn.Module):
    """Head that detects replaced tokens from their vectors. Only training needs it."""

    def __init__(self, config: EncoderConfig) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(config.dim, eps=config.norm_eps)
        self.project = nn.Linear(config.dim, 1)

    def forward(self, tokens: Tensor) -> Tensor:
        """float [N, D] -> logits [N]."""
        logits: Tensor = self.project(self.norm(tokens)).squeeze(-1)
        return logits


def masked_token_loss(
    encoder: Encoder,
    head: MaskedTokenHead,
    ids: Tensor,
    labels: Tensor,
    positions: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the cross-entropy in nats of the hidden tokens, and the share guessed correctly.

    Args:
        ids: int64 [B, S] without padding, some tokens of which are corrupted.
        labels: int64 [B, S], the true token where it is asked for, IGNORED elsewhere.
        positions: as in `Encoder.forward`.

    Returns:
        Two scalars: loss and accuracy.
    """
    return guess_loss(encoder, head, encoder(ids, positions=positions).tokens, labels)


def guess_loss(
    encoder: Encoder, head: MaskedTokenHead, tokens: Tensor, labels: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the same from the vectors of all tokens: float [B, S, D]."""
    hidden = labels != IGNORED  # [B, S]
    # [N, D] -> [N, V]: the large product only for the tokens that are asked for
    logits = head(tokens[hidden], encoder.embedding.weight).float()
    truth = labels[hidden]
    return functional.cross_entropy(logits, truth), (logits.argmax(dim=-1) == truth).float().mean()


def source_loss(
    encoder: Encoder,
    guess: MaskedTokenHead,
    detect: ReplacedTokenHead,
    batch: Altered,
    recipe: Recipe,
    targets: Mapping[str, Tensor],
) -> tuple[Tensor, Tensor]:
    """Return the weighted sum of three losses: hidden tokens, replaced tokens, taught heads.

    Args:
        wanted: by role, the keys that a query would look at, bool [B, S, S].

    Returns:
        Two scalars: loss in nats, and the share of the hidden tokens guessed right.
    """
    with torch.autocast("cpu", torch.bfloat16, enabled=recipe.bfloat16):
        output = encoder(batch.ids, fused=False)
        tokens = output.tokens
        loss, accuracy = guess_loss(encoder, guess, tokens, batch.labels)
    logits = detect(tokens[batch.visible].float())
    replaced = batch.replaced[batch.visible].float()
    replaced_loss = functional.binary_cross_entropy_with_logits(logits, replaced)
    taught = taught_loss(output.attention, targets, batch, recipe.taught_heads)
    return loss + recipe.replaced_weight * replaced_loss + recipe.taught_weight * taught, accuracy


def taught_loss(
    attention: Sequence[Tensor],
    targets: Mapping[str, Tensor],
    batch: Altered,
    heads: Iterable[TaughtHead],
) -> Tensor:
    """Return the sum over heads of the mean negative logarithm of the weight on wanted keys.

    Queries and keys that are hidden or replaced do not count.

    Args:
        attention: [B, H, S, S] of each layer.
        wanted: as in `source_loss`.
    """
    shown = batch.ids == batch.original  # [B, S]
    total = torch.zeros(())
    for each in heads:
        keys = targets[each.role] & shown[:, :, None] & shown[:, None, :]
        queries_with_keys = keys.any(dim=-1)
        if queries_with_keys.any():
            weights = attention[each.layer][:, each.head].float()  # [B, S, S]
            on_keys = (weights * keys).sum(dim=-1)[queries_with_keys]
            total = total - on_keys.clamp(min=LEAST_WEIGHT).log().mean()
    return total


def contrastive_loss(
    queries: Tensor, documents: Tensor, same: Tensor, temperature: float
) -> tuple[Tensor, Tensor]:
    """Compute symmetric InfoNCE over the pairs of a batch.

    After van den Oord et al. 2018; Radford et al. 2021.

    After van den Oord et al. 2018; Radford et al. 2021.

    Args:
        queries, documents: float [B, D] of unit length; row i of one belongs to row i of the other.
        same: bool [B, B]; True where a pair off the diagonal is not a wrong answer; it is left out
            of the sum.
        temperature: divides the cosine.

    Returns:
        Two scalars: loss in nats, and the share of queries whose own document scores highest.
    """
    scores = queries @ documents.T / temperature  # [B, B]
    diagonal = torch.eye(len(scores), dtype=torch.bool)
    scores = scores.masked_fill(same & ~diagonal, -math.inf)
    truth = torch.arange(len(scores))
    loss = (functional.cross_entropy(scores, truth) + functional.cross_entropy(scores.T, truth)) / 2
    return loss, (scores.argmax(dim=-1) == truth).float().mean()


def nested_loss(
    queries: Tensor, documents: Tensor, same: Tensor, temperature: float, widths: Sequence[int]
) -> tuple[Tensor, Tensor]:
    """Return the mean contrastive loss of all dimensions and of the first ones, for each width.

    After Kusupati et al. 2022, Matryoshka.

    Returns:
        Two scalars: loss in nats, and the accuracy of the full width.
    """
    loss, accuracy = contrastive_loss(queries, documents, same, temperature)
    for width in widths:
        first, second = (unit_length(side[:, :width]) for side in (queries, documents))
        loss = loss + contrastive_loss(first, second, same, temperature)[0]
    return loss / (1 + len(widths)), accuracy


def distillation_loss(
    vectors: tuple[Tensor, Tensor],
    taught: tuple[Tensor, Tensor],
    same: Tensor,
    recipe: Recipe,
) -> tuple[Tensor, Tensor]:
    """Return the distance of vectors, and of their similarities, from those of a teacher.

    The similarities of a batch become, row by row, a distribution over the answers: the teacher's,
    mixed with the truth. The loss is the divergence of the student's from it, for each width, both
    ways, plus 1 minus the cosine of each vector with the teacher's.

    Args:
        vectors: of queries and documents, float [B, D] of unit length.
        taught: the same by the teacher.
        same: as in `contrastive_loss`.

    Returns:
        Two scalars: loss in nats, and the mean cosine with the teacher's vectors.
    """
    truth = same | torch.eye(len(same), dtype=torch.bool)
    truth = truth / truth.sum(dim=1, keepdim=True)  # symmetric
    share = recipe.truth_share
    scores = taught[0] @ taught[1].T / recipe.temperature
    targets = [share * truth + (1 - share) * each.softmax(dim=1) for each in (scores, scores.T)]
    divergence = torch.zeros(())
    for width in (*recipe.widths, vectors[0].shape[1]):
        queries, documents = (unit_length(side[:, :width]) for side in vectors)
        scores = queries @ documents.T / recipe.temperature
        for target, each in zip(targets, (scores, scores.T), strict=True):
            guess = each.log_softmax(dim=1)
            divergence = divergence + functional.kl_div(guess, target, reduction="batchmean") / 2
    pairs = zip(vectors, taught, strict=True)
    cosine = torch.stack([(side * target).sum(dim=1).mean() for side, target in pairs]).mean()
    loss = divergence / (1 + len(recipe.widths)) + recipe.teacher_cosine * (1 - cosine)
    return loss, cosine.detach()


def order_loss(queries: Tensor, documents: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Return the mean cross-entropy of choosing the answer and of choosing the question.

    Both answers, and both questions, hold the same words. Their vectors begin so much alike that
    gradients would vanish: both differences are factors of them. So scores are divided by the
    product of the differences if that is smaller than the temperature.

    Args:
        queries, documents: float [B, 2, D] of unit length; [:, i] of one belongs to [:, i] of the
            other.
        temperature: divides the cosine once the vectors are far enough apart.

    Returns:
        Two scalars: loss in nats, and the share of questions whose own answer scores higher.
    """
    # [B] each
    apart = [(side[:, 0] - side[:, 1]).detach().norm(dim=1) for side in (queries, documents)]
    scale = (apart[0] * apart[1]).clamp(LEAST_APART, temperature)
    scores = queries @ documents.transpose(1, 2) / scale[:, None, None]  # [B, 2, 2]
    truth = torch.arange(2).expand(len(scores), 2)
    loss = functional.cross_entropy(scores.transpose(1, 2), truth) + functional.cross_entropy(
        scores, truth
    )
    return loss / 2, (scores.argmax(dim=-1) == truth).float().mean()

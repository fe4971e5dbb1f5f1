"""Synthetic tasks of the lab.

Sequences made from a seed, and for each token the one that an encoder should name in its place.

The score without positions is computed here too: positions must lift a model above it.
"""

from __future__ import annotations

import dataclasses
import functools
import string
from collections.abc import Callable
from pydoc_data.topics import topics  # type: ignore[import-untyped, unused-ignore]

import torch
from tokenizers import Regex, Tokenizer, models, pre_tokenizers
from torch import Tensor
from torch.nn import functional

# Paragraphs of a piece; every tenth piece is only for tests.
PIECE, HELD_OUT = 50, 10
# The characters of the vocabulary: a line end, and printable ASCII.
CHARACTERS = ("\n", *(chr(code) for code in range(32, 127)))


@functools.cache
def corpus(*, held_out: bool) -> Tensor:
    """Return one part of the text as indices in CHARACTERS: int64 [characters]; others are -1."""
    # Topics repeat each other's paragraphs.
    paragraphs = list(
        dict.fromkeys("\n\n".join(topics[name] for name in sorted(topics)).split("\n\n"))
    )
    chosen = [
        paragraph
        for place, paragraph in enumerate(paragraphs)
        if (place // PIECE % HELD_OUT == 0) == held_out
    ]
    text = "\n\n".join(chosen)
    places = {character: place for place, character in enumerate(CHARACTERS)}
    return torch.tensor([places.get(character, -1) for character in text])


def windows(count: int, length: int, random: torch.Generator, *, held_out: bool) -> Tensor:
    """Draw pieces of one part of the text, as in `corpus`: int64 [count, length]."""
    text = corpus(held_out=held_out)
    begins = torch.randint(len(text) - length + 1, (count, 1), generator=random)
    return text[begins + torch.arange(length)]


SPECIAL = ("[PAD]", "[UNK]")
FIRST = len(SPECIAL)  # id of the first symbol
IGNORED = -100  # target of a token that is not asked for
LETTERS = tuple(string.ascii_lowercase + "012345")  # 32 symbols
KEYS = tuple(f"k{number}" for number in range(32))
MARKS = ("<", ">")


@dataclasses.dataclass(frozen=True)
class Examples:
    """Sequences of one length S.

    Attributes:
        ids: int64 [B, S].
        targets: by kind of question, int64 [B, S]; IGNORED where nothing is asked. Each kind is
            scored separately.
        away: int64, broadcastable to [B, S]: for "recall", the distance of each asking token from
            its target.
    """

    ids: Tensor
    targets: dict[str, Tensor]
    away: Tensor | None = None


@dataclasses.dataclass(frozen=True)
class Task:
    """A task for an encoder.

    Attributes:
        symbols: the tokens, as they are written.
        make: makes examples from count, length and generator; "recall" also takes the number of
            keys.
        marks: tokens of a sequence that its length does not count.
        characters: the symbols are characters of a text, not words between spaces.
    """

    name: str
    symbols: tuple[str, ...]
    make: Callable[..., Examples]
    marks: int = 0
    characters: bool = False

    @property
    def vocabulary(self) -> int:
        """Number of ids."""
        return FIRST + len(self.symbols)

    def tokenizer_json(self) -> str:
        """Return tokenizer.json of a model of this task; it adds no special tokens."""
        ids = {token: place for place, token in enumerate((*SPECIAL, *self.symbols))}
        tokenizer = Tokenizer(models.WordLevel(ids, unk_token=SPECIAL[1]))
        tokenizer.pre_tokenizer = (
            pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
            if self.characters
            else pre_tokenizers.WhitespaceSplit()
        )
        text: str = tokenizer.to_str(pretty=True)
        return text + "\n"


def _letters(count: int, length: int, random: torch.Generator) -> Tensor:
    """Draw letters independently and uniformly: int64 [count, length]."""
    return torch.randint(FIRST, FIRST + len(LETTERS), (count, length), generator=random)


def _copy(count: int, length: int, random: torch.Generator) -> Examples:
    ids = _letters(count, length, random)
    return Examples(ids, {"copy": ids})


def _reverse(count: int, length: int, random: torch.Generator) -> Examples:
    ids = _letters(count, length, random)
    return Examples(ids, {"reverse": ids.flip(1)})


def _reverse_marked(count: int, length: int, random: torch.Generator) -> Examples:
    """Return reversal examples between two marks, which show a scheme of distances the ends.

    `length` tokens and the marks.
    """
    plain = _letters(count, length, random)
    begin, end = (torch.full((count, 1), FIRST + len(LETTERS) + mark) for mark in range(len(MARKS)))
    targets = functional.pad(plain.flip(1), (1, 1), value=IGNORED)
    return Examples(torch.cat((begin, plain, end), dim=1), {"reverse": targets})


def keys_of(length: int) -> int:
    """Return how many keys ask in a training sequence of "recall"."""
    return min(len(KEYS), max(1, length // 8))


def _recall(count: int, length: int, random: torch.Generator, keys: int | None = None) -> Examples:
    """Return examples of two questions.

    The left neighbour of each letter, and what followed the same key earlier.
    """
    ids = _letters(count, length, random)
    half, pairs = length // 2, (length // 2 - 1) // 2
    chosen = keys_of(length) if keys is None else keys

    def some(choices: int) -> Tensor:
        # [count, asked], all different
        return torch.rand(count, choices, generator=random).argsort(dim=1)[:, :chosen]

    asking = FIRST + len(LETTERS) + some(len(KEYS))
    # All sources of a row are even or all odd: no key follows a key there.
    sources = 2 * some(pairs) + torch.randint(2, (count, 1), generator=random)
    places = half + some(length - half)
    nothing = torch.full_like(ids, IGNORED)
    answers = ids.gather(1, sources + 1)
    ids = ids.scatter(1, sources, asking).scatter(1, places, asking)
    left = functional.pad(ids[:, :-1], (1, 0), value=IGNORED)
    targets = {
        "left": torch.where(ids < FIRST + len(LETTERS), left, IGNORED),
        "recall": nothing.scatter(1, places, answers),
    }
    return Examples(ids, targets, nothing.scatter(1, places, places - sources - 1))


def _next(count: int, length: int, random: torch.Generator, *, unseen: bool = False) -> Examples:
    """Return pieces of text; each character asks for the one after it.

    `unseen`: text that no training has.
    """
    # An unknown character has the index -1, so it gets the id of [UNK], the one before FIRST.
    text = FIRST + windows(count, length + 1, random, held_out=unseen)
    return Examples(text[:, :-1], {"next": text[:, 1:]})


TASKS = {
    task.name: task
    for task in (
        Task("copy", LETTERS, _copy),
        Task("reverse", LETTERS, _reverse),
        Task("reverse marked", LETTERS + MARKS, _reverse_marked, marks=len(MARKS)),
        Task("recall", LETTERS + KEYS, _recall),
        Task("next", CHARACTERS, _next, characters=True),
    )
}


def baselines(examples: Examples) -> dict[str, float]:
    """Return shares of right answers on "reverse" without positions.

    Known are the asking token and which other tokens there are, but not their places.

    Args:
        examples: of an even length S, so that no token asks for itself.

    Returns:
        "chance": naming any symbol.
        "multiset": naming one of the others at random: mean of n_t / (S-1), n_t of the others being
        the answer. "most frequent": naming the most frequent of them, the best possible answer;
        ties are left to luck.
    """
    ids, targets = examples.ids, examples.targets["reverse"]
    present = functional.one_hot(ids, FIRST + len(LETTERS))  # [B, S, ids]
    others = present.sum(dim=1, keepdim=True) - present  # for each asking token
    right = others.gather(2, targets.unsqueeze(-1)) / (ids.shape[1] - 1)
    return {
        "chance": 1 / len(LETTERS),
        "multiset": float(right.mean()),
        "most frequent": float((others.argmax(dim=-1) == targets).float().mean()),
    }


def floor(examples: Examples, question: str) -> float:
    """Return the share of right answers on "recall" by naming the most frequent token.

    This is the accuracy without positions.
    """
    ids, targets = examples.ids, examples.targets[question]
    counts = torch.zeros(len(ids), int(ids.max()) + 1, dtype=torch.int64).scatter_add_(
        1, ids, torch.ones_like(ids)
    )
    frequent = counts.argmax(dim=1, keepdim=True)  # [B, 1]
    return float((frequent == targets)[targets != IGNORED].float().mean())

"""The model that predicts the next character: its text, its perplexity, and what it may see."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from tokenizers import Tokenizer
from torch.nn import functional

from lab.building import build
from lab.experiments import causal
from lab.plans import Training
from lab.tasks import CHARACTERS, FIRST, TASKS, corpus
from lab.training import fit_scores, held_out

[PLAN] = [each for each in causal.trainings(range(1)) if each.scheme == "learned"]
SMALL = dataclasses.replace(PLAN, tested=1024)


def text_of(ids: torch.Tensor) -> str:
    return "".join(CHARACTERS[each - FIRST] if each >= FIRST else "?" for each in ids.tolist())


def test_the_text_of_the_tests_is_not_in_the_training() -> None:
    trained, unseen = corpus(held_out=False), corpus(held_out=True)
    assert len(trained) > 4 * len(unseen) > 100_000
    assert float((trained < 0).float().mean()) < 0.005, "unknown characters"
    whole = text_of(FIRST + trained)
    pieces = [text_of(FIRST + each) for each in torch.split(unseen, 200)[:-1]]
    assert not [piece for piece in pieces if piece in whole]


def test_the_tokenizer_gives_the_ids_of_the_training() -> None:
    [ids, *_] = held_out(SMALL, 128, unseen=True).ids
    tokenizer = Tokenizer.from_str(TASKS["next"].tokenizer_json())
    assert tokenizer.encode(text_of(ids)).ids == ids.tolist()
    assert tokenizer.encode("é\n").ids == [FIRST - 1, FIRST]


def test_each_character_asks_for_the_next_one_and_sees_no_later_one() -> None:
    examples = held_out(SMALL, 128, unseen=True)
    assert torch.equal(examples.ids[:, 1:], examples.targets["next"][:, :-1])
    encoder = build(SMALL).eval()
    changed = examples.ids.clone()
    changed[:, 64:] = FIRST
    before, after = (fit_scores(encoder, ids)[:, :64] for ids in (examples.ids, changed))
    torch.testing.assert_close(before, after)


def test_perplexity_is_that_of_the_second_half_of_each_piece() -> None:
    encoder = build(SMALL).eval()
    examples = held_out(SMALL, 128, unseen=True)
    losses = functional.cross_entropy(
        fit_scores(encoder, examples.ids).transpose(1, 2),
        examples.targets["next"],
        reduction="none",
    )
    wanted = float(losses.detach()[:, 64:].mean().exp())
    assert causal.perplexity(encoder, SMALL, 128) == pytest.approx(wanted, rel=1e-4)


def test_a_longer_text_than_the_table_of_positions_is_refused() -> None:
    with pytest.raises(ValueError, match="max_length 128"):
        causal.perplexity(build(SMALL).eval(), SMALL, 512)


def test_every_scheme_of_the_comparison_is_causal() -> None:
    plans: list[Training] = causal.trainings(range(2))
    assert {plan.scheme for plan in plans} == set(causal.SCHEMES)
    assert all(build(plan).config.causal for plan in plans)

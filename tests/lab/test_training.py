"""The lab's trainings: repeatable, optionally blinded, and limited to existing positions.

Also the analysis of their heads.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch

from headlight_model.encoder import Encoder
from lab.building import encoder_config
from lab.experiments import scaling
from lab.experiments.heads import antidiagonal_mass, lost_without, maps
from lab.experiments.reversal import LENGTH
from lab.plans import Training
from lab.tasks import IGNORED, TASKS, Examples
from lab.training import (
    SCHEMES,
    accuracy,
    few_keys,
    held_out,
    name_all,
    rate_share,
    take_steps,
    train,
)
from lab.training import trained as trained_in

SHORT = Training(
    task="reverse", scheme="learned", seed=3, steps=3, lengths=(LENGTH, LENGTH), batch=4, tested=256
)


def ignore() -> None:
    """Progress callback that does nothing."""


def trained(**changes: object) -> Encoder:
    return train(dataclasses.replace(SHORT, **changes), ignore)[0]  # type: ignore[arg-type]


def same(one: Encoder, other: Encoder) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


def test_equal_trainings_give_equal_weights_and_another_seed_others() -> None:
    assert same(trained(), trained())
    assert not same(trained(), trained(seed=4))
    assert not same(trained(), trained(steps=4))


def test_weights_are_rounded_as_in_a_checkpoint() -> None:
    assert all(torch.equal(weight, weight.half().float()) for weight in trained().parameters())


def test_every_step_counts_and_changes_every_matrix() -> None:
    counted: list[int] = []
    fresh = Encoder(encoder_config(SHORT))
    before = [weight.clone() for weight in fresh.parameters()]
    curve = take_steps(fresh, SHORT, lambda: counted.append(1))
    assert len(counted) == SHORT.steps
    assert len(curve) == 1
    assert 0 <= curve[0] <= 1
    pairs = [(a, b) for a, b in zip(before, fresh.parameters(), strict=True) if a.ndim > 1]
    assert not any(torch.equal(a, b) for a, b in pairs)


def test_the_rate_rises_and_then_falls_to_a_twentieth() -> None:
    paces = [rate_share(number, 1000) for number in range(1000)]
    assert paces[0] < 0.02
    assert max(paces) == pytest.approx(1, abs=0.05)
    assert paces[100:] == sorted(paces[100:], reverse=True)
    assert paces[-1] == pytest.approx(0.05, abs=0.001)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_blinded_model_does_not_depend_on_positions(scheme: str) -> None:
    encoder = trained(scheme=scheme)
    ids = held_out(SHORT, LENGTH).ids[:4]
    order = torch.randperm(LENGTH, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode():
        here = torch.zeros(1, LENGTH, dtype=torch.int64)
        plain, moved = (
            encoder(ids, positions=here).tokens,
            encoder(ids[:, order], positions=here).tokens,
        )
    torch.testing.assert_close(plain[:, order], moved, atol=1e-5, rtol=1e-5)


def test_all_schemes_are_measured_on_the_same_sequences() -> None:
    other = dataclasses.replace(SHORT, scheme="rope", seed=9)
    assert torch.equal(held_out(SHORT, LENGTH).ids, held_out(other, LENGTH).ids)


@pytest.mark.parametrize("seed", range(3))
def test_measured_sequences_are_not_in_the_training(seed: int) -> None:
    """Compared as `take_steps` draws them.

    PyTorch's generator keeps 32 bits of a seed, so a large seed may equal a small one.
    """
    measured = {
        tuple(row)
        for row in held_out(dataclasses.replace(SHORT, tested=1 << 15), LENGTH).ids.tolist()
    }
    random = torch.Generator().manual_seed(seed)
    for _ in range(100):
        torch.randint(LENGTH, LENGTH + 1, (1,), generator=random)
        assert not measured & {
            tuple(row) for row in TASKS["reverse"].make(64, LENGTH, random).ids.tolist()
        }


def test_few_keys_asks_as_many_keys_as_the_training() -> None:
    training = dataclasses.replace(
        SHORT, task="recall", scheme="rope", lengths=(16, 32), tested=2048
    )
    for length in (32, 128, 512):
        asked = (few_keys(training, length).targets["recall"] != IGNORED).sum(dim=1)
        assert set(asked.tolist()) == {4}


def test_an_existing_training_is_reused_only_if_it_is_the_same(tmp_path: Path) -> None:
    counted: list[int] = []
    first, curve = trained_in(SHORT, tmp_path, ignore)
    again, same_curve = trained_in(SHORT, tmp_path, lambda: counted.append(1), again=True)
    assert same(first, again)
    assert curve == same_curve
    assert len(counted) == SHORT.steps, "they count as done"
    more = dataclasses.replace(SHORT, steps=4)
    assert not same(first, trained_in(more, tmp_path, ignore, again=True)[0])


def test_a_learned_position_beyond_its_table_is_refused() -> None:
    with pytest.raises(ValueError, match=f"{LENGTH + 1} tokens are more than max_length {LENGTH}"):
        accuracy(trained(), held_out(SHORT, LENGTH + 1))


def test_accuracy_counts_only_asked_tokens() -> None:
    encoder, ids = trained(), held_out(SHORT, LENGTH).ids[:8]
    named = name_all(encoder, ids)
    wrong = (named + 1) % SHORT_VOCABULARY
    targets = torch.where(torch.arange(LENGTH) < 4, named, wrong)  # a quarter of them are right
    assert accuracy(encoder, Examples(ids, {"reverse": targets})) == {
        "reverse": pytest.approx(0.25)
    }
    asked = torch.where(torch.arange(LENGTH) < 8, targets, IGNORED)
    assert accuracy(encoder, Examples(ids, {"reverse": asked})) == {"reverse": pytest.approx(0.5)}


SHORT_VOCABULARY = encoder_config(SHORT).vocab_size


def test_the_antidiagonal_is_the_mirrored_token() -> None:
    mirror = torch.eye(6).flip(-1)
    assert antidiagonal_mass(mirror) == 1
    assert antidiagonal_mass(torch.full((2, 6, 6), 1 / 6)).tolist() == pytest.approx([1 / 6] * 2)
    assert antidiagonal_mass(torch.eye(6)) == 0


def test_maps_cover_every_layer_and_head() -> None:
    found = maps(trained(), held_out(SHORT, LENGTH).ids[:3])
    assert found.shape == (2, 3, 4, LENGTH, LENGTH)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(2, 3, 4, LENGTH))


def test_removing_a_head_without_contribution_changes_nothing() -> None:
    encoder, examples = trained(), held_out(SHORT, LENGTH)
    width = encoder.config.head_dim
    with torch.no_grad():
        projections = [
            weight
            for name, weight in encoder.named_parameters()
            if name.endswith("project_out.weight")
        ]
        for weight in projections:
            weight.mul_(30)  # otherwise the residual outweighs the heads
        projections[1][:, 2 * width : 3 * width] = 0
    # Its own outputs count as right, so any change is a loss.
    wanted = {"reverse": name_all(encoder, examples.ids)}
    lost = lost_without(encoder, Examples(examples.ids, wanted), "reverse")
    assert lost[1][2] == 0
    assert max(lost[0]) > 0


def test_stretching_keeps_weights_and_changes_positions() -> None:
    training = dataclasses.replace(SHORT, task="recall", scheme="rope", lengths=(16, 64))
    encoder = train(training, ignore)[0]
    examples = held_out(training, 256)
    plain = scaling.stretched(encoder, "none")
    assert torch.equal(plain(examples.ids[:1]).tokens, encoder(examples.ids[:1]).tokens)
    for kind in ("linear", "ntk", "yarn"):
        other = scaling.stretched(encoder, kind)
        assert same(other, encoder)
        assert not torch.allclose(
            other(examples.ids[:1]).tokens, encoder(examples.ids[:1]).tokens, atol=1e-3
        )


def test_far_counts_distances_beyond_those_of_training() -> None:
    training = dataclasses.replace(SHORT, task="recall", scheme="rope", lengths=(16, 64))
    encoder, examples = train(training, ignore)[0], held_out(training, 256)
    assert examples.away is not None
    named = name_all(encoder, examples.ids)
    distant = examples.away > scaling.TRAINED[1]
    rest = examples.targets["recall"]
    targets = torch.where((rest != IGNORED) & distant, named, rest)  # distant targets are right
    assert scaling.far(encoder, dataclasses.replace(examples, targets={"recall": targets})) == 1
    targets = torch.where(
        (rest != IGNORED) & distant, (named + 1) % encoder.config.vocab_size, named
    )
    targets = torch.where(rest != IGNORED, targets, IGNORED)
    assert scaling.far(encoder, dataclasses.replace(examples, targets={"recall": targets})) == 0

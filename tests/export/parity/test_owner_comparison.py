"""The owner's model beside a checkpoint: the first difference, and its cause."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from headlight_export.command import main
from headlight_export.folders.model_folder import Refused
from headlight_export.parity.owner_comparison import TOKENS, against_owner
from headlight_export.parity.transformers_comparison import Disagreement
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder
from headlight_model.positions.interleaved import to_half_split
from headlight_model.positions.sinusoidal import positional_encoding
from tests.factory import sharpened, small_config, write_checkpoint

NO_ERROR = {"tokens": 0.0, "hidden": 0.0}
LAYERS, MAX_LENGTH = 3, 40
FIELDS = {
    "norm": "post",
    "first_norm": False,
    "positions": "sinusoidal",
    "layers": LAYERS,
    "max_length": MAX_LENGTH,
}


class Block(nn.Module):
    """A block as tutorials write it, with the weights of one of ours."""

    def __init__(self, owner: Owner, layer: int) -> None:
        super().__init__()
        self.read = {"owner": owner}  # not registered as a part of its own part
        self.ours = owner.ours.blocks[layer]
        self.layer = layer

    def forward(self, x: Tensor) -> tuple[Tensor, None]:
        owner, ours = self.read["owner"], self.ours
        assert isinstance(ours, nn.Module)
        if owner.every_layer:
            x = x + owner.pe[: x.shape[1]]
        joined = ours.get_parameter("attention.project_in.weight")
        bias = ours.get_parameter("attention.project_in.bias")
        split = (*x.shape[:2], 3, owner.ours.config.heads, -1)
        q, k, v = functional.linear(x, joined, bias).view(split).permute(2, 0, 3, 1, 4)
        root = math.sqrt(q.shape[-1]) if owner.root is None else owner.root
        scores = owner.turn(q) @ owner.turn(k).transpose(-1, -2) / root
        context = (scores.softmax(-1) @ v).transpose(1, 2).flatten(2)
        mixed = ours.get_submodule("attention.project_out")(context)
        first, second = (
            ours.get_submodule(name) for name in ("attention_norm", "feed_forward_norm")
        )
        up, down = (ours.get_submodule(f"feed_forward.{name}") for name in ("up", "down"))
        if owner.outside:
            x = x + first(mixed)
            return x + second(down(functional.gelu(up(x)))), None
        x = first(x + mixed)
        return second(x + down(functional.gelu(up(x), approximate=owner.gelu))), None


class Owner(nn.Module):
    """A hand-written post-norm encoder, with the weights of ours and what an owner may change."""

    pe: Tensor
    every_layer, transposed, scaled, gelu, interleaved = False, False, False, "none", False
    root: float | None = None  # that divides scores
    outside, by_name, noise = False, False, 0.0

    def __init__(self, ours: Encoder, **differences: Any) -> None:
        super().__init__()
        self.ours = ours
        self.register_buffer("pe", positional_encoding(MAX_LENGTH, ours.config.dim))
        self.blocks = nn.ModuleList(Block(self, layer) for layer in range(ours.config.layers))
        for name, value in differences.items():
            setattr(self, name, value)

    def forward(self, ids: Tensor) -> Tensor:
        x: Tensor = self.ours.embedding(ids)
        if self.scaled:
            x = x * math.sqrt(x.shape[-1])
        if not self.every_layer and not self.interleaved:
            x = x + (self.pe[: len(x), None] if self.transposed else self.pe[: x.shape[1]])
        for block in self.blocks:
            x, _ = block(x=x) if self.by_name else block(x)
        return functional.dropout(x, self.noise)

    def turn(self, heads: Tensor) -> Tensor:
        """Rotate neighbouring pairs of [B, H, S, d]."""
        if not self.interleaved:
            return heads
        width = heads.shape[-1]
        angles = torch.arange(heads.shape[2])[:, None] * 10000 ** (
            -torch.arange(0, width, 2) / width
        )
        pairs = torch.view_as_complex(heads.reshape(*heads.shape[:3], -1, 2).contiguous())
        return torch.view_as_real(pairs * torch.polar(torch.ones(1), angles)).flatten(-2)


def checkpoint(**changes: Any) -> Encoder:
    return sharpened(small_config(**FIELDS | changes))


def test_equal_models_agree_in_every_block() -> None:
    ours = checkpoint()
    owner = Owner(ours).train()
    errors = against_owner(owner, ours, NO_ERROR)
    blocks = [f"outputs of block {layer}" for layer in range(LAYERS)]
    assert list(errors) == ["inputs of block 0", *blocks, TOKENS]
    assert max(errors.values()) < 1e-5
    assert owner.training


@pytest.mark.parametrize(
    ("differences", "stage", "cause"),
    [
        (
            {"every_layer": True},
            "inputs of block 0",
            'config.json has "positions_every_layer": true',
        ),
        ({"scaled": True}, "inputs of block 0", 'config.json has "scale_embeddings": true'),
        ({"transposed": True}, "inputs of block 0", "its table of positions is transposed"),
        ({"gelu": "tanh"}, "outputs of block 0", 'config.json has "activation": "gelu_tanh"'),
        (
            {"every_layer": True, "scaled": True},
            "inputs of block 0",
            'config.json has "scale_embeddings": true, "positions_every_layer": true',
        ),
        ({"outside": True}, "outputs of block 0", "blocks are x + norm(f(x))"),
        ({"root": 1.0}, "outputs of block 0", "W_q and its biases are times sqrt(d):"),
        ({"root": 6.0}, "outputs of block 0", "W_q and its biases are times sqrt(d / D)"),
        ({"by_name": True, "gelu": "tanh"}, "outputs of block 0", "config.json has"),
    ],
)
def test_the_first_stage_that_differs_is_named_with_its_cause(
    differences: dict[str, Any], stage: str, cause: str
) -> None:
    ours = checkpoint()
    with pytest.raises(Disagreement, match=f"^{stage} differ by") as caught:
        against_owner(Owner(ours, **differences), ours, NO_ERROR)
    message = str(caught.value)
    assert f"; all agrees if {cause}" in message
    assert message.count(cause) == 1


def test_positions_in_each_block_agree_once_the_config_says_so() -> None:
    ours = checkpoint(positions_every_layer=True)
    assert max(against_owner(Owner(ours, every_layer=True), ours, NO_ERROR).values()) < 1e-5


def test_an_order_of_norms_that_differs_is_a_cause() -> None:
    owner = checkpoint()
    changed: dict[str, Any] = {"norm": "pre", "first_norm": True, "final_norm": False}
    ours = Encoder(dataclasses.replace(owner.config, **changed)).eval()
    ours.load_state_dict(owner.state_dict())
    with pytest.raises(
        Disagreement, match=r'^outputs of block 0 .* all agrees if .*"norm": "post"'
    ):
        against_owner(Owner(owner), ours, NO_ERROR)


def test_biases_that_were_not_reordered_for_rotary_pairs_are_a_cause() -> None:
    ours = checkpoint(positions="rope", dim=24)
    owner = Owner(ours, interleaved=True)
    converted = Encoder(ours.config).eval()
    state = ours.state_dict()
    for name in [name for name in state if name.endswith("project_in.weight")]:
        rows = [to_half_split(part, 3, 8) for part in state[name].split(24)[:2]]
        state[name] = torch.cat((*rows, state[name][48:]))
    converted.load_state_dict(state)
    with pytest.raises(Disagreement, match="if the biases of W_q and W_k go through to_half_split"):
        against_owner(owner, converted, NO_ERROR)


def test_a_difference_without_a_usual_cause_is_reported_with_the_page() -> None:
    ours, other = checkpoint(), checkpoint()
    other.get_parameter("blocks.1.feed_forward.up.bias").data.add_(1)
    with pytest.raises(
        Disagreement, match=r"outputs of block 1 .*; all before it agree .* no usual"
    ):
        against_owner(Owner(other), ours, NO_ERROR)


def test_a_model_with_other_weights_is_reported() -> None:
    ours, other = checkpoint(), checkpoint()
    other.embedding.weight.data.copy_(other.embedding.weight.data.roll(1, 0))
    with pytest.raises(Disagreement, match=r"none of its parameters is embedding\.weight"):
        against_owner(Owner(other), ours, NO_ERROR)


def test_what_follows_the_last_block_is_reported() -> None:
    ours = checkpoint()

    class Normed(Owner):
        def forward(self, ids: Tensor) -> Tensor:
            return 2 * super().forward(ids)

    with pytest.raises(Disagreement, match=r"^token vectors .* something follows its last block"):
        against_owner(Normed(ours), ours, NO_ERROR)


def test_a_model_that_draws_in_evaluation_is_reported() -> None:
    ours = checkpoint()
    with pytest.raises(Disagreement, match=r"^your model differs from itself .*dropout"):
        against_owner(Owner(ours, noise=0.5), ours, NO_ERROR)


def test_a_model_of_two_mistakes_is_told_how_far_one_correction_reaches() -> None:
    ours, other = checkpoint(), checkpoint()
    other.get_parameter("blocks.1.feed_forward.up.bias").data.add_(1)
    with pytest.raises(Disagreement, match=r"all before outputs of block 1 agrees if .*scale_emb"):
        against_owner(Owner(other, scaled=True), ours, NO_ERROR)


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda _: torch.zeros(3, 5), r"returns \[3, 5\] for ids .*; it must return token vectors"),
        (lambda ids: ids.tolist(), "returns list for ids"),
        (
            lambda ids: torch.zeros(len(ids)) + torch.zeros(6),
            r"fails if it is called with ids \[3, 1\] alone: .*must match.*\(test_.*, line .*see",
        ),
        (lambda ids: torch.full((*ids.shape, 36), math.nan), "returns NaN or infinity"),
    ],
)
def test_a_model_that_gives_no_token_vectors_is_refused(result: Any, message: str) -> None:
    class Other(nn.Module):
        def forward(self, ids: Tensor) -> Any:
            return result(ids)

    with pytest.raises(Refused, match=message):
        against_owner(Other(), checkpoint(), NO_ERROR)


def test_sequence_first_vectors_of_a_model_without_a_list_of_blocks_are_compared() -> None:
    ours = checkpoint()

    class SequenceFirst(nn.Module):
        def forward(self, ids: Tensor) -> tuple[Tensor]:
            tokens: Tensor = ours(ids).tokens
            return (tokens.transpose(0, 1).double(),)

    errors = against_owner(SequenceFirst(), ours, NO_ERROR)
    assert list(errors) == [TOKENS]
    assert errors[TOKENS] < 1e-5


def small() -> EncoderConfig:
    return small_config(**FIELDS | {"layers": 1})


def trained() -> nn.Module:
    """Return the owner's model, for the command."""
    return Owner(stored())


def stored() -> Encoder:
    """Return the encoder of `write_checkpoint`, whose weights are stored in float16."""
    return sharpened(small()).half().float()


def no_file() -> nn.Module:
    model: nn.Module = torch.load("no_such.pt")
    return model


def stops() -> nn.Module:
    raise SystemExit(0)


def doubles() -> nn.Module:
    torch.set_default_dtype(torch.float64)
    return trained()


def wrong() -> nn.Module:
    return Owner(stored(), every_layer=True)


def test_the_command_compares_before_a_bundle_is_written(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder, out = write_checkpoint(tmp_path / "checkpoint", small()), tmp_path / "bundle"
    command = [str(folder), "--out", str(out), "--check-against"]
    assert main([*command, f"{__name__}:wrong"]) == 1
    assert "export: inputs of block 0 differ by" in capsys.readouterr().err
    assert not out.exists()
    assert main([*command, f"{__name__}:trained"]) == 0
    assert "our PyTorch against your model, without padding: inputs of" in capsys.readouterr().out
    report = json.loads((out / "parity.json").read_text(encoding="utf-8"))
    assert report["pytorch_fp32_against_owner"][TOKENS] < 1e-5


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("no_function", "give MODULE:FUNCTION"),
        ("no.such.module:trained", "No module named"),
        (f"{__name__}:no_such", "no_such"),
        (f"{__name__}:no_file", "fails: FileNotFoundError: "),
        (f"{__name__}:stops", "fails: SystemExit: 0 (test_owner_comparison.py, line "),
        (f"{__name__}:doubles", "default type and device at torch.float64 and cpu; set them back"),
        (f"{__name__}:small", "returned EncoderConfig; it must return an nn.Module"),
    ],
)
def test_a_name_without_a_model_is_refused(
    name: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path), "--out", str(tmp_path / "x"), "--check-against", name]) == 2
    assert message in capsys.readouterr().err
    assert torch.get_default_dtype() == torch.float32

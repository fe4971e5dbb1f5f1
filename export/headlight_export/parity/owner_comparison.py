"""Comparison of a checkpoint with the code of the model's owner, block by block.

A checkpoint whose tensors were renamed may fit a config that computes something else. The exported
graphs then agree with the checkpoint, and not with the owner's model.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from headlight.runtime.parity.golden_inputs import distance
from headlight.runtime.values import Floats
from headlight_export.folders.model_folder import Refused
from headlight_export.parity.owner_causes import Cause, causes, pairs_of_causes
from headlight_export.parity.reference import longest_with_maps, random_ids
from headlight_export.parity.transformers_comparison import FLOOR, SLACK, Disagreement
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

SEED = 41
TEXTS = 3  # in a batch; no length is this, so that the two axes can be told apart
LONGEST = 128  # tokens
MOST_CAUSES = 3  # in a message
INPUTS, TOKENS = "inputs of block 0", "token vectors"
REMEDIES = "see docs/bring-your-own.md#if-the-check-fails"
NO_BLOCKS = "blocks are not compared: it has no ModuleList or Sequential of its blocks alone"
ROUNDED = 1e-2  # relative; weights may be stored in bfloat16
# Parts of the paths of code that is not an owner's.
NOT_OWNERS = ("site-packages", "<frozen", "importlib", __file__)


class Run(NamedTuple):
    """A batch, and what the owner's model computes from it, by stage: float32 [B, S, D]."""

    ids: Tensor
    stages: Mapping[str, Floats]


def load_owner(name: str) -> nn.Module:
    """Return the model that MODULE:FUNCTION returns; modules are also looked up in this folder.

    Raises:
        Refused: there is no such function, it fails, changes torch's defaults, or returns
            something else.
    """
    module, _, function = name.partition(":")
    if not module or not function:
        raise Refused(f"--check-against is {name!r}; give MODULE:FUNCTION, as my_model:trained")
    if (directory := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, directory)
    defaults = torch.get_default_dtype(), torch.get_default_device()
    try:
        model = getattr(importlib.import_module(module), function)()
    except (Exception, SystemExit) as error:  # any code
        raise Refused(f"--check-against {name} fails: {_failure(error)}") from error
    if (changed := (torch.get_default_dtype(), torch.get_default_device())) != defaults:
        torch.set_default_dtype(defaults[0])
        torch.set_default_device(None)
        raise Refused(
            f"--check-against {name} leaves torch's default type and device at "
            f"{' and '.join(map(str, changed))}; set them back to "
            f"{' and '.join(map(str, defaults))}, in which our model is computed"
        )
    if not isinstance(model, nn.Module):
        raise Refused(
            f"--check-against {name} returned {type(model).__name__}; it must return an nn.Module "
            "with its weights"
        )
    return model


def _failure(error: BaseException) -> str:
    """Return the type and message of an error in an owner's code, and its last line there."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [
        f" ({Path(frame.filename).name}, line {frame.lineno})"
        for frame in frames
        if not any(part in frame.filename for part in NOT_OWNERS)
    ]
    return f"{type(error).__name__}: {error!s:.200}{lines[-1] if lines else ''}"


def against_owner(
    owner: nn.Module, encoder: Encoder, own_error: Mapping[str, float]
) -> dict[str, float]:
    """Return the largest distance of our encoder from its owner's, by stage, over random texts.

    Stages are the input of block 0, the output of each block, and the token vectors.

    Args:
        owner: from int64 [B, S] to token vectors [B, S, D], alone or first of several results. Its
            blocks are those of a ModuleList or Sequential with one entry for each layer; without
            one, only token vectors are compared.
        encoder: ours.
        own_error: its distance in float32 from float64, by output.

    Raises:
        Refused: the owner's model fails, or returns something else.
        Disagreement: a distance is beyond rounding; the message names the first stage and likely
            causes.
    """
    runs = [_run(owner, ids, encoder.config) for ids in _batches(encoder.config)]
    tolerance = max(FLOOR, SLACK * max(own_error[name] for name in ("tokens", "hidden")))
    errors = _errors(runs, encoder)
    if agreeing(errors, tolerance) == len(errors):
        return errors
    again = _run(owner, runs[-1].ids, encoder.config).stages[TOKENS]
    if not (random := distance("tokens", again, runs[-1].stages[TOKENS])) <= tolerance:
        raise Disagreement(
            f"your model differs from itself by {random:.3g} for the same ids; remove what is "
            "random, as functional.dropout(x) without training=self.training"
        )
    names, at = list(errors), agreeing(errors, tolerance)
    before = f"; all before it agree ({errors[names[at - 1]]:.1e})" if at else ""
    likely = _likely(runs, encoder, errors, tolerance)
    raise Disagreement(
        f"{names[at]} differ by {errors[names[at]]:.3g} from your model{before}; "
        + (_reach(names, likely) if likely else _hint(owner, encoder, names, at))
    )


def agreeing(errors: Mapping[str, float], tolerance: float) -> int:
    """Return the number of stages before the first that differs."""
    return next(
        (at for at, error in enumerate(errors.values()) if not error <= tolerance), len(errors)
    )


def _likely(
    runs: Sequence[Run], encoder: Encoder, errors: Mapping[str, float], tolerance: float
) -> list[tuple[int, str]]:
    """Return the causes that explain the first difference, those that explain most of all first.

    Before each comes the number of stages that then agree. Pairs come if no single cause helps.
    """
    before = agreeing(errors, tolerance)
    for possible in (causes(encoder), pairs_of_causes(encoder)):
        explained = [
            (agreeing(_errors(runs, cause.encoder, cause), tolerance), cause.text)
            for cause in possible
        ]
        if likely := [each for each in explained if each[0] > before]:
            return sorted(likely, key=lambda each: -each[0])
    return []


def _reach(names: Sequence[str], likely: Sequence[tuple[int, str]]) -> str:
    """Return how far the best causes reach, and the causes."""
    most = likely[0][0]
    best = [*dict.fromkeys(text for after, text in likely if after == most)][:MOST_CAUSES]
    reach = "all agrees" if most == len(names) else f"all before {names[most]} agrees"
    return f"{reach} if {', or '.join(best)}"


def _hint(owner: nn.Module, encoder: Encoder, names: Sequence[str], at: int) -> str:
    """Return what is known of a difference that no cause explains."""
    table = encoder.embedding.weight
    if not any(
        each.shape == table.shape
        and torch.allclose(each.detach().float().cpu(), table, rtol=ROUNDED, atol=ROUNDED**2)
        for each in owner.parameters()
    ):
        known = "none of its parameters is embedding.weight of the checkpoint; load its weights"
    elif len(names) == 1:
        known = f"no usual cause explains it, and {NO_BLOCKS}"
    elif at == len(names) - 1:
        known = "something follows its last block, such as a norm"
    else:
        known = "no usual cause explains it"
    return f"{known}, {REMEDIES}"


def _batches(config: EncoderConfig) -> Iterator[Tensor]:
    """Yield random ids [TEXTS, length], without padding."""
    most = min(LONGEST, longest_with_maps(config))
    for length in sorted({1, 7, min(config.trained_length, most), most} - {TEXTS}):
        if length <= most:
            rows = [random_ids(config, length, SEED + row) for row in range(TEXTS)]
            yield torch.from_numpy(np.stack(rows))


def _errors(runs: Sequence[Run], encoder: Encoder, cause: Cause | None = None) -> dict[str, float]:
    """Return the largest distance of each stage."""
    worst = dict.fromkeys(runs[0].stages, 0.0)
    for ids, theirs in runs:
        positions = None if cause is None else cause.positions(ids)
        with torch.inference_mode():
            out = encoder(ids, positions=positions, fused=False)
            ours = {
                stage: [values]
                for stage, values in zip(
                    _names(encoder.config), (*out.hidden, out.tokens), strict=True
                )
            }
            if encoder.config.positions_every_layer:  # theirs may be added before the block
                places = torch.arange(ids.shape[1])[None] if positions is None else positions
                state = encoder.positions.prepare(places)
                ours[INPUTS].append(encoder.positions.embed(out.hidden[0], state))
        for stage, values in theirs.items():
            error = min(distance("tokens", each.numpy(), values) for each in ours[stage])
            worst[stage] = max(worst[stage], error)
    return worst


def _names(config: EncoderConfig) -> list[str]:
    """Return the stages of an encoder, in order."""
    blocks = [f"outputs of block {layer}" for layer in range(config.layers)]
    return [INPUTS, *blocks, TOKENS]


def _run(owner: nn.Module, ids: Tensor, config: EncoderConfig) -> Run:
    shape = (*ids.shape, config.dim)
    with _recorded(owner, config.layers) as lists, _evaluating(owner), torch.inference_mode():
        try:
            result = owner(ids)
        except Exception as error:  # any code
            raise Refused(
                f"your model fails if it is called with ids {list(ids.shape)} alone: "
                f"{_failure(error)}; {REMEDIES}"
            ) from error
    tokens = _oriented(result, shape)
    if tokens is None:
        raise Refused(
            f"your model returns {_about(result)} for ids {list(ids.shape)}; it must return token "
            f"vectors {list(shape)}, without a head"
        )
    if not np.isfinite(tokens).all():
        raise Refused(f"your model returns NaN or infinity for ids {list(ids.shape)}; {REMEDIES}")
    names = _names(config)
    for values in lists:
        blocks = [_oriented(each, shape) for each in values]
        if len(blocks) == config.layers + 1 and all(each is not None for each in blocks):
            stages = zip(names, (*blocks, tokens), strict=True)
            return Run(ids, {name: values for name, values in stages if values is not None})
    return Run(ids, {TOKENS: tokens})


@contextlib.contextmanager
def _recorded(owner: nn.Module, layers: int) -> Iterator[list[list[Any]]]:
    """Record, of each list of so many modules, the first input and then all outputs."""
    lists, hooks = [], []

    def record_input(
        values: list[Any], _module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]
    ) -> None:
        if not values:
            values.append(next(iter((*inputs, *named.values())), None))

    def record(values: list[Any], _module: nn.Module, _inputs: Any, output: Any) -> None:
        values.append(output)

    for module in owner.modules():
        if isinstance(module, nn.ModuleList | nn.Sequential) and len(module) == layers:
            values: list[Any] = []
            lists.append(values)
            for block in dict.fromkeys(module):  # a block may stand there several times
                hooks += [
                    block.register_forward_pre_hook(
                        functools.partial(record_input, values), with_kwargs=True
                    ),
                    block.register_forward_hook(functools.partial(record, values)),
                ]
    try:
        yield lists
    finally:
        for hook in hooks:
            hook.remove()


@contextlib.contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Set evaluation mode, without dropout."""
    training = [module for module in model.modules() if module.training]
    model.eval()
    try:
        yield
    finally:
        for module in training:
            module.training = True


def _first(result: Any) -> Any:
    """Return the vectors of a result that may have more."""
    result = getattr(result, "last_hidden_state", result)
    return result[0] if isinstance(result, tuple | list) and result else result


def _oriented(result: Any, shape: tuple[int, ...]) -> Floats | None:
    """Return vectors as float32 [B, S, D], also from [S, B, D]; None for anything else."""
    values = _first(result)
    if not isinstance(values, Tensor):
        return None
    batch, length, width = shape
    if values.shape == (length, batch, width):
        values = values.transpose(0, 1)
    array: Floats = values.detach().float().cpu().numpy()
    return array.copy() if array.shape == shape else None


def _about(result: Any) -> str:
    values = _first(result)
    return str(list(values.shape)) if isinstance(values, Tensor) else type(values).__name__

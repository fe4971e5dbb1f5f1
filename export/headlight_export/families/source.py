"""Inputs of a family: values of a config.json, and tensors to be moved into our encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from headlight_export.folders.model_folder import Refused
from headlight_model.config import MOST as MOST_OF
from headlight_model.config import EncoderConfig
from headlight_model.encoder import Encoder

T = TypeVar("T", int, float, str, bool)
MOST = 1e15  # no number of a config is so large, and results from smaller ones are finite
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers")  # families loop over so many
COMPUTED = (
    ".inv_freq",
    "original_inv_freq",
    "position_ids",
)  # name endings of tensors in old files that every model computes

GLOBAL, LOCAL = "full_attention", "sliding_attention"  # kinds of layers, as layer_types names them


class Unfit(Refused):
    """Tensors and config.json that do not fit one known model."""


class NoTensors(Unfit):
    """A folder of a known model without tensors. `built` is the config of its encoder."""

    def __init__(self, built: EncoderConfig) -> None:
        super().__init__("the weights have no tensors; is the file whole?")
        self.built = built


class Config:
    """A config.json, read by name and type. A value may have a second name, from another family.

    Attributes:
        remarks: what the user should know of its values.
        used: names of the values that were read and are not null.
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values
        self.remarks: list[str] = []
        self.used = set[str]()

    def get(
        self, kind: type[T], *names: str, default: T | None = None, least: int | None = None
    ) -> T:
        """Return the first of `names` that is set and not null.

        Raises:
            Refused: none is and there is no default, or it has another type, is below `least`, or
                is not finite.
        """
        for name in names:
            value = self.values.get(name)
            if value is None:
                continue
            self.used.add(name)
            if kind is float and type(value) is int and abs(value) < MOST:
                value = float(value)
            if type(value) is not kind:  # True would pass for an int
                raise Refused(f"config.json: {name} is {value!a:.60}; expected {kind.__name__}")
            _check_number(name, value, least)
            if name in LAYERS and int(value) > MOST_OF["layers"]:
                raise Refused(
                    f"config.json: {name} is {value}; at most {MOST_OF['layers']} is read"
                )
            return value
        if default is None:
            raise Refused(
                f"config.json has no {names[0]}; save the model again with save_pretrained"
            )
        return default

    def demand(self, name: str, accepted: Sequence[Any], why: str) -> None:
        """Check that `name` is missing or one of `accepted`.

        Raises:
            Refused: it is neither.
        """
        value = self.values.get(name)
        if value is not None and value not in accepted:
            raise Refused(f"config.json: {name} is {value!a:.60}, {why}")


def _check_number(name: str, value: Any, least: int | None) -> None:
    """Check that a number is within MOST and at least `least`; other values pass.

    Raises:
        Refused: it is not.
    """
    if not isinstance(value, int | float):
        return
    if not (-MOST < value < MOST and (least is None or value >= least)):
        accepted = (
            "within what a model can have"
            if least is None
            else f"at least {least}, and within what a model can have"
        )
        raise Refused(f"config.json: {name} is {value!a:.60}; it must be {accepted}")


class Weights:
    """The tensors of a folder, moved to our names. A tensor left over is an error unless idle.

    Attributes:
        built: config of the encoder.
        state: by our names.
    """

    def __init__(
        self,
        built: EncoderConfig,
        tensors: dict[str, Tensor],
        prefixes: Sequence[str],
        idle: Sequence[str] = (),
    ) -> None:
        """Wrap the tensors. They need a config, so that it can be checked before a download.

        Args:
            built: config of the encoder.
            tensors: by the folder's names; moved ones are taken out of it.
            prefixes: possible prefixes of every name ("bert."), for a model saved inside another.
            idle: beginnings of names, without prefix, that vectors do not need: poolers, other
                tasks' heads.

        Raises:
            NoTensors: there is none.
        """
        if not tensors:
            raise NoTensors(built)
        self.built = built
        self.state: dict[str, Tensor] = {}
        self._idle = tuple(idle)
        self._origin: dict[str, str] = {}
        self._tensors = tensors
        self._left: dict[str, tuple[str, Tensor]] = {}
        for name, tensor in tensors.items():
            prefix = next((prefix for prefix in prefixes if name.startswith(prefix)), "")
            self._left[name[len(prefix) :]] = (name, tensor)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def peek(self, name: str) -> Tensor:
        """Return a tensor that is not yet taken. Raise Unfit if there is none."""
        if name not in self._left:
            raise Unfit(
                f"the weights have no {name}, which config.json promises; is the file whole?"
            )
        return self._left[name][1]

    def take(self, name: str) -> Tensor:
        """Return a tensor, once. Raise Unfit if there is none."""
        tensor = self.peek(name)
        del self._tensors[self._left.pop(name)[0]]
        return tensor

    def move(
        self, ours: str, *theirs: str, change: Callable[[Tensor], Tensor] | None = None
    ) -> None:
        """Put theirs into the place of ours: each changed first, several joined by rows."""
        parts = [self.take(name) for name in theirs]
        self.join(ours, theirs[0], [part if change is None else change(part) for part in parts])

    def join(self, ours: str, origin: str, parts: Sequence[Tensor]) -> None:
        """Put parts from `origin` and its neighbours, concatenated, into the place of ours."""
        if len({part.shape[1:] for part in parts}) > 1:
            shapes = ", ".join(str(list(part.shape)) for part in parts)
            raise Unfit(
                f"{origin} and the tensors joined to it have the shapes {shapes}, which do not "
                "match; is the file complete?"
            )
        self.state[ours] = torch.cat(list(parts))
        self._origin[ours] = origin

    def move_halves(self, first: str, second: str, theirs: str) -> None:
        """Put the upper half of theirs into one place of ours, the lower half into another.

        The halves are of rows.
        """
        for ours, half in zip((first, second), self.take(theirs).chunk(2), strict=True):
            self.join(ours, theirs, [half])

    def move_linear(
        self,
        ours: str,
        *theirs: str,
        bias: bool = True,
        change: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        """Move .weight and, with `bias`, .bias."""
        for part in ("weight", "bias") if bias else ("weight",):
            self.move(f"{ours}.{part}", *(f"{name}.{part}" for name in theirs), change=change)

    def move_norm(self, ours: str, theirs: str, *, bias: bool = True) -> None:
        """Move the gain and the bias of a norm, which old files call gamma and beta."""
        old = f"{theirs}.gamma" in self
        self.move(f"{ours}.weight", f"{theirs}.{'gamma' if old else 'weight'}")
        if bias:
            self.move(f"{ours}.bias", f"{theirs}.{'beta' if old else 'bias'}")

    def build(self) -> Encoder:
        """Return the encoder with these weights: float32, in evaluation mode.

        Raises:
            Unfit: a tensor's shape differs from the config's, or the tensor is unknown.
        """
        shapes = _shapes(self.built)
        if shapes.keys() != self.state.keys():
            raise RuntimeError(
                f"a family maps {sorted(shapes.keys() ^ self.state.keys())} wrongly. This is a bug."
            )
        for name, tensor in self.state.items():
            if tensor.shape != shapes[name]:
                have, expected = list(tensor.shape), list(shapes[name])
                raise Unfit(
                    f"{self._origin[name]} has the shape {have}; config.json makes it {expected}"
                )
        left = sorted(
            name
            for bare, (name, _) in self._left.items()
            if not bare.startswith(self._idle) and not bare.endswith(COMPUTED)
        )
        if left:
            raise Unfit(
                f"{left[0]} (and {len(left) - 1} more tensors) do not belong to this family; "
                "check model_type"
            )
        encoder = Encoder(self.built)
        encoder.load_state_dict(self.state)
        return encoder.eval()


def _shapes(config: EncoderConfig) -> dict[str, torch.Size]:
    """Return the shape of each tensor of an encoder.

    It allocates no memory for them; a damaged config may need more than there is.
    """
    try:
        with torch.device("meta"):
            return {name: tensor.shape for name, tensor in Encoder(config).state_dict().items()}
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise Unfit(
            f"config.json has sizes that no tensor can have ({reason:.100}); save the model again"
        ) from error


def local_layers(kinds: Any, layers: int) -> tuple[int, ...]:
    """Return the layers that layer_types calls local.

    Raises:
        Refused: it does not name the kind of each layer.
    """
    if (
        not isinstance(kinds, list)
        or len(kinds) != layers
        or any(kind not in (GLOBAL, LOCAL) for kind in kinds)
    ):
        raise Refused(
            f"config.json: layer_types must name {GLOBAL} or {LOCAL} for each of {layers} layers"
        )
    return tuple(layer for layer, kind in enumerate(kinds) if kind == LOCAL)

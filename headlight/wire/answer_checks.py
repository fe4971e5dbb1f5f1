"""Checks of answers against the request and the model's description; a misfit is a BadAnswer.

    GetModel  --check_description-->  sizes that an encoder can have
    header    --Expected.check----->  requested outputs, types, layers, shapes; then memory
    numbers   --check_numbers------>  finite; rows of attention sum to 1; unit length if requested

Both clients use these. `headlight.wire.reassembly` checks that an answer is consistent in itself.
What is particular to an output: `headlight.outputs`.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headlight.description import ModelDescription
from headlight.errors import BadAnswer, InvalidInput, MixedWeights
from headlight.interface.arguments import Input, Reading
from headlight.outputs.answer_numbers import check_numbers
from headlight.outputs.answer_places import check_listed
from headlight.outputs.contract import malformed, numbers_of, require
from headlight.outputs.layout import Layout, Tensor
from headlight.outputs.registry import OUTPUTS
from headlight.outputs.vector_forms import AvailableForms
from headlight.pb import headlight_pb2 as pb
from headlight.printable import escaped, shortened
from headlight.results import TokenList
from headlight.wire.client_codec import VECTOR_NAMES, from_bytes, from_token_info
from headlight.wire.reassembly import Announced, Answer, check_items, tensors_in

# Bounds of a description. No encoder comes near them. Without them a server could name any size.
MOST_LAYERS, MOST_HEADS, MOST_WIDTH, MOST_TOKENS = 1024, 1024, 2**17, 2**24
MOST_MAPS = 2**16  # layers times heads; the largest models known have a quarter of it
# Bounds of a text. A tokenizer makes at most one token of a byte, and NFKC at most 33 bytes of a
# character.
TOKENS_PER_CHARACTER, TOKENS_AROUND = 64, 512
PIECE_BYTES = 64  # of the spelling of a term; of XLM-RoBERTa's at most 51
NO_RANGES = np.zeros((2, 0), np.float32)  # of int8, which the service has


def check_name(name: str, expected: str) -> None:
    """Raise BadAnswer unless an answer comes from the expected model; "" expects any."""
    if expected and name != expected:
        raise malformed(f"model.name is {name[:100]!r}, and {expected!r} was requested")


def check_model(ref: pb.ModelRef, model: ModelDescription, name: str) -> None:
    """Check that the described model answered.

    Args:
        ref: reference of the answer.
        model: the model as GetModel described it.
        name: name as the caller gave it; "" stands for the described model.

    Raises:
        BadAnswer: it is not the model that the caller named.
        MixedWeights: it is another one: the default model, or that of an alias, was replaced.
    """
    if name == model.name:
        check_name(ref.name, name)
    if ref.name != model.name:
        raise replaced(ref, model)


def replaced(ref: pb.ModelRef, model: ModelDescription) -> MixedWeights:
    """Return the error for an answer of another model than the one described."""
    before, now = (escaped(shortened(f"{each.name} {each.version}", 200)) for each in (model, ref))
    return MixedWeights(
        f"the service's weights were replaced ({before}, now {now}) "
        "and the answer does not fit the model described before; call again"
    )


def check_description(model: ModelDescription, name: str) -> ModelDescription:
    """Check that an encoder can have the sizes of a description, and return it.

    Args:
        model: the description by the server.
        name: name that the caller gave; "" for the default model of the server.

    Raises:
        BadAnswer: the description is of another model, or a size is out of range.
    """
    if name not in model.names:
        check_name(model.name, name)
    for field, size, most in (
        ("layers", model.layers, MOST_LAYERS),
        ("heads", model.heads, MOST_HEADS),
        ("dim", model.dim, MOST_WIDTH),
        ("pooled_dim", model.pooled_dim, MOST_WIDTH),
        ("max_length", model.max_length, MOST_TOKENS),
    ):
        require(1 <= size <= most, f"info.{field} is {size}, and 1 .. {most} are possible")
    for field, size, most in (
        ("multi_vector_dim", model.multi_vector_dim, MOST_WIDTH),
        ("query_tokens", model.query_tokens, model.max_length),
    ):
        require(size <= most, f"info.{field} is {size}, and at most {most} is possible")
    require(
        model.layers * model.heads <= MOST_MAPS,
        f"info has {model.layers} layers of {model.heads} heads, and {MOST_MAPS} maps are possible",
    )
    return model


def texts_of(given: Input) -> tuple[str, ...]:
    """Return the text, or both texts of a pair; empty for token ids."""
    if isinstance(given, str):
        return (given,)
    return given if isinstance(given, tuple) and given and isinstance(given[0], str) else ()


def check_token_list(tokens: TokenList, given: Input, vocab_size: int, field: str) -> None:
    """Check the tokens of one input.

    Args:
        tokens: the tokens from the server.
        given: the input.
        vocab_size: vocabulary size of the model; 0: not known.
        field: path of the tokens in the answer.

    Raises:
        BadAnswer: an id is not in the vocabulary or was not sent, or a token lies outside of its
            text.
    """
    texts, ids = texts_of(given), np.array(tokens.ids, np.int64)
    if len(ids):
        known = 0 <= ids.min() <= ids.max() < (vocab_size or 2**63)
        require(
            known, f"{field}.ids are {ids.min()} .. {ids.max()}, and the model knows {vocab_size}"
        )
    if not texts:
        require(tokens.ids == tuple(given), f"{field}.ids are not those that were sent")
        return
    spelled = ~np.array(tokens.special, bool)
    segments, starts, ends = (
        np.array(each, np.int64)[spelled] for each in (tokens.segments, tokens.starts, tokens.ends)
    )
    last = segments.max(initial=0)
    require(last < len(texts), f"{field}.segments has {last}, and {len(texts)} texts were sent")
    inside = (starts <= ends) & (ends <= np.array([len(text) for text in texts])[segments])
    require(inside.all(), f"{field}.starts and .ends leave the text that was sent")


class Expected:
    """Expected contents of the answers to one call."""

    def __init__(
        self,
        model: ModelDescription,
        name: str,
        specs: Mapping[str, Any],
        reading: Reading,
        *,
        details: bool = False,
    ) -> None:
        """Store the request.

        Args:
            model: the model as GetModel described it.
            name: name of the model as the caller gave it; "" stands for the described model.
            specs: the checked specs of the requested outputs.
            reading: how to read texts.
            details: whether the tokens are requested.
        """
        self._model, self._name, self._specs = model, name, specs
        self._reading, self._details = reading, details

    @functools.cached_property
    def choices(self) -> dict[str, Any]:
        """The requested outputs, as the service resolves them. Raises InvalidInput as it does."""
        model, ranges = self._model, dict.fromkeys(self._model.int8_dimensions, NO_RANGES)
        forms = AvailableForms(model.pooled_dim, model.normalized, ranges)
        return {
            name: OUTPUTS[name].choose(spec, model, forms) for name, spec in self._specs.items()
        }

    def most_bytes(self, tokens: int) -> int:
        """Return the most bytes of data and spelling for an input of so many tokens.

        Or of so many spans, if these are more. 0 for a request that the service refuses.
        """
        with contextlib.suppress(InvalidInput):
            return sum(
                PIECE_BYTES * OUTPUTS[name].most_spelled(choice)
                + sum(
                    tensor.size_bytes
                    for tensor in OUTPUTS[name].tensors(choice, None, tokens, self._model)
                )
                for name, choice in self.choices.items()
            )
        return 0

    def check(self, response: pb.EncodeResponse, inputs: Sequence[Input]) -> Announced:
        """Check everything but the numbers, so that memory is reserved only for requested outputs.

        Args:
            response: an answer, or the header of one.
            inputs: the inputs that it answers.

        Raises:
            BadAnswer: it does not fit the request.
            MixedWeights: the model was replaced after its description, by one of another name or by
                weights whose answer does not fit.
        """
        check_items(response, len(inputs))
        check_model(response.model, self._model, self._name)
        try:
            self._check_items(response, inputs)
            return self._announced(response, inputs)
        except BadAnswer:
            if response.model.bundle_sha256 == self._model.bundle_sha256:
                raise
            raise replaced(response.model, self._model) from None
        except InvalidInput as error:
            raise malformed(f"it answers a request that cannot be: {error}") from None

    def _announced(self, response: pb.EncodeResponse, inputs: Sequence[Input]) -> Announced:
        counts = [item.token_count for item in response.items]
        held, announced = tensors_in(response), Announced({}, {})
        for name, choice in self.choices.items():
            output = OUTPUTS[name]
            places = output.places_in(response, choice, counts, inputs)
            announced.places[name] = places
            announced.layouts.update(output.layouts(choice, places, counts, self._model))
        if held.keys() != announced.layouts.keys():
            raise malformed(
                f"it holds {', '.join(sorted(held)) or 'nothing'}; "
                f"requested was {', '.join(announced.layouts)}"
            )
        for name, layout in announced.layouts.items():
            check_tensor(name, held[name], layout)
        return announced

    def check_numbers(self, answer: Answer) -> None:
        """Check the numbers of a whole answer. Raises BadAnswer if one does not fit the request."""
        precision = answer.response.model.precision
        for name, choice in self.choices.items():
            output = OUTPUTS[name]
            for tensor, layout in answer.announced.layouts.items():
                if tensor.partition("[")[0] not in output.tensor_names:
                    continue
                kind = output.kind(tensor, choice, self._model.normalized)
                if layout.axes[-1:] == ("value",):
                    rows = answer.data[tensor].reshape(-1, layout.shapes[0][-1])
                    check_numbers(tensor, rows, kind, precision)
                    continue
                for part in range(len(layout.shapes)):  # the length of a row differs
                    check_numbers(tensor, answer.part(tensor, part), kind, precision)

    def _check_items(self, response: pb.EncodeResponse, inputs: Sequence[Input]) -> None:
        if not self._details and self._are_plain(response.items, inputs):
            return
        for at, (item, value) in enumerate(zip(response.items, inputs, strict=True)):
            self._check_counts(f"items[{at}]", item, value)
            if self._details:
                tokens = from_token_info(item.tokens)
                require(
                    len(tokens) == item.token_count,
                    f"{len(tokens)} tokens described of {item.token_count}",
                )
                check_token_list(tokens, value, self._model.vocab_size, f"items[{at}].tokens")

    def _are_plain(self, items: Sequence[pb.Item], inputs: Sequence[Input]) -> bool:
        """Return whether the items need no closer check: short texts, not truncated."""
        items = list(items)  # protobuf makes an object on each access to an item
        counts = [item.token_count for item in items]
        return (
            min(counts) >= 1
            and max(counts) <= min(self._model.max_length, TOKENS_AROUND)
            and counts == [item.original_token_count for item in items]
            and max([item.prompt_token_count for item in items]) <= min(counts)
            and True not in [item.truncated for item in items]
            and set(map(type, inputs)) == {str}
        )

    def _check_counts(self, field: str, item: pb.Item, value: Input) -> None:
        prompt = self._model.prompt_text(
            self._reading.get("prompt"), self._reading.get("prompt_name")
        )
        texts = texts_of(value)
        # Unless the caller refuses, the service may decide it, each replica by its own option.
        truncates = bool(texts) and self._reading.get("truncate") != "refuse"
        count, original = item.token_count, item.original_token_count
        fewest = most = len(value)  # for ids nothing is added and nothing is cut off
        if texts:
            characters = sum(map(len, texts)) + len(prompt)
            fewest, most = 1, characters * TOKENS_PER_CHARACTER + TOKENS_AROUND
            any_length = any(OUTPUTS[each].any_length(spec) for each, spec in self.choices.items())
            if not any_length:
                most = min(self._model.max_length, most)
        require(
            fewest <= count <= most,
            f"{field}.token_count is {count}, and {fewest} .. {most} are possible",
        )
        side = "a side" if truncates else "nothing"
        rightly = (
            count <= original
            and item.truncated == (count < original)
            and (truncates or not item.truncated)
        )
        require(rightly, f"{field} has {count} of {original} tokens, and {side} was to be cut off")
        require(
            item.prompt_token_count <= count,
            f"{field} has {item.prompt_token_count} tokens of a prompt, of {count}",
        )


def check_tensor(name: str, tensor: pb.Tensor | pb.RaggedTensor, layout: Layout) -> None:
    """Raise BadAnswer unless a tensor of an answer has the requested type, shapes and layers."""
    if tensor.dtype != numbers_of("DataType")[layout.type]:
        dtype = VECTOR_NAMES.get(tensor.dtype, tensor.dtype)
        raise malformed(f"{name} has the type {dtype}, and {layout.type} was requested")
    if isinstance(tensor, pb.Tensor):
        check_listed(f"{name}.shape", tensor.shape, layout.shapes[0])
        return
    check_listed(f"{name}.layers", tensor.layers, layout.layers)
    check_listed(f"{name}.shapes", [tuple(each.sizes) for each in tensor.shapes], layout.shapes)
    check_listed(f"{name}.offsets", tensor.offsets, layout.offsets)


def finite_numbers(
    field: str, tensor: pb.Tensor, shape: tuple[int, ...], dtype: str = "float32"
) -> NDArray[Any]:
    """Return the numbers of a tensor. Raises BadAnswer for another type or shape, or infinity."""
    axes = ("",) * len(shape)
    layout = Layout.of([Tensor(field, dtype, shape, axes)])
    check_tensor(field, tensor, layout)
    numbers = from_bytes(layout.dtype, tensor.data, layout.offsets[-1]).reshape(shape)
    if numbers.size:
        check_numbers(field, numbers, "finite", "")
    return numbers

"""Checks of answers against the request and the model's description; a misfit is a BadAnswer.

    GetModel  --check_description-->  sizes that an encoder can have
    header    --Expected.check----->  requested outputs, types, layers, extents; then memory
    numbers   --check_numbers------>  finite; rows of attention sum to 1; unit length if requested

Both clients use these. `headlight.wire.reassembly` checks that an answer is consistent in itself.
What is particular to an output: `headlight.outputs`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from headlight.description import ModelDescription
from headlight.errors import BadAnswer, MixedWeights
from headlight.interface.arguments import Input, Reading
from headlight.outputs.answer_numbers import check_numbers
from headlight.outputs.contract import malformed, require
from headlight.outputs.layout import Layout
from headlight.outputs.output import Output, Told
from headlight.outputs.registry import OUTPUTS
from headlight.pb import headlight_pb2 as pb
from headlight.printable import escaped, shortened
from headlight.results import TokenList
from headlight.wire.client_codec import DTYPES, from_token_info
from headlight.wire.reassembly import Answer

# Bounds of a description. No encoder comes near them. Without them a server could name any size.
MOST_LAYERS, MOST_HEADS, MOST_WIDTH, MOST_TOKENS = 1024, 1024, 2**17, 2**24
MOST_MAPS = 2**16  # layers times heads; the largest models known have a quarter of it
# Bounds of a text. A tokenizer makes at most one token of a byte, and NFKC at most 33 bytes of a
# character.
TOKENS_PER_CHARACTER, TOKENS_AROUND = 64, 512


def check_name(name: str, expected: str) -> None:
    """Raise BadAnswer unless an answer comes from the expected model; "" expects any."""
    if expected and name != expected:
        raise malformed(f"model.name is {name[:100]!r}, and {expected!r} was asked for")


def check_model(ref: pb.ModelRef, model: ModelDescription, name: str) -> None:
    """Check the name of the model that answered.

    Args:
        ref: reference of the answer.
        model: the model as GetModel described it.
        name: name as the caller gave it; "" stands for the described model.

    Raises:
        BadAnswer: it is not the model that the caller named.
        MixedWeights: the caller named none, and it is not the described model.
    """
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
        name: name that the caller asked for; "" for the server's only model.

    Raises:
        BadAnswer: the description is of another model, or a size is out of range.
    """
    check_name(model.name, name)
    for field, size, most in (
        ("layers", model.layers, MOST_LAYERS),
        ("heads", model.heads, MOST_HEADS),
        ("dim", model.dim, MOST_WIDTH),
        ("pooled_dim", model.pooled_dim, MOST_WIDTH),
        ("max_length", model.max_length, MOST_TOKENS),
    ):
        require(1 <= size <= most, f"info.{field} is {size}, and 1 .. {most} are possible")
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
    found = ~np.array(tokens.special, bool)
    segments, starts, ends = (
        np.array(each, np.int64)[found] for each in (tokens.segments, tokens.starts, tokens.ends)
    )
    last = segments.max(initial=0)
    require(last < len(texts), f"{field}.segments has {last}, and {len(texts)} texts were sent")
    inside = (starts <= ends) & (ends <= np.array([len(text) for text in texts])[segments])
    require(inside.all(), f"{field}.starts and .ends leave the text that was sent")


@dataclasses.dataclass(slots=True)
class Expected:
    """Expected contents of the answers to one call.

    Attributes:
        model: the model as GetModel described it.
        name: name of the model as the caller gave it; "" stands for the described model.
        outputs: the requested outputs.
        reading: how to read texts.
    """

    model: ModelDescription
    name: str
    outputs: pb.Outputs
    reading: Reading

    def check(
        self, response: pb.EncodeResponse, layouts: dict[str, Layout], inputs: Sequence[Input]
    ) -> None:
        """Check everything but the numbers, so that memory is reserved only for requested outputs.

        Args:
            response: an answer, or the header of one.
            layouts: layouts of its outputs.
            inputs: the inputs that it answers.

        Raises:
            BadAnswer: it does not fit the request.
            MixedWeights: the model was replaced after its description, by one of another name or by
                weights whose answer does not fit.
        """
        check_model(response.model, self.model, self.name)
        try:
            self._check_items(response, inputs)
            self._check_outputs(response, layouts, inputs)
        except BadAnswer:
            if response.model.bundle_sha256 == self.model.bundle_sha256:
                raise
            raise replaced(response.model, self.model) from None

    def check_numbers(self, answer: Answer) -> None:
        """Check the numbers of a whole answer. Raises BadAnswer if one does not fit the request."""
        precision = answer.response.model.precision
        for _, message, output in self._requested():
            for tensor in output.promised(message, self.model):
                layout, kind = answer.layouts[tensor], output.kind(tensor, message, self.model)
                if layout.axes[-1:] == ("value",):
                    rows = answer.data[tensor].reshape(-1, layout.shapes[0][-1])
                    check_numbers(tensor, rows, kind, precision)
                    continue
                for part in range(len(layout.shapes)):  # the length of a row differs
                    check_numbers(tensor, answer.part(tensor, part), kind, precision)

    def _requested(self) -> Iterator[tuple[str, Any, Output]]:
        """Yield the requested outputs and their messages."""
        for name, output in OUTPUTS.items():
            if self.outputs.HasField(name):
                yield name, getattr(self.outputs, name), output

    def _check_items(self, response: pb.EncodeResponse, inputs: Sequence[Input]) -> None:
        told = self.outputs.HasField("token_info")
        if not told and self._are_plain(response.items, inputs):
            return
        for at, (item, given) in enumerate(zip(response.items, inputs, strict=True)):
            self._check_counts(f"items[{at}]", item, given)
            if told:
                tokens = from_token_info(item.tokens)
                require(
                    len(tokens) == item.token_count,
                    f"{len(tokens)} tokens described of {item.token_count}",
                )
                check_token_list(tokens, given, self.model.vocab_size, f"items[{at}].tokens")

    def _are_plain(self, items: Sequence[pb.Item], inputs: Sequence[Input]) -> bool:
        """Return whether the items need no closer check: short texts, not truncated."""
        items = list(items)  # protobuf makes an object on each access to an item
        counts = [item.token_count for item in items]
        return (
            min(counts) >= 1
            and max(counts) <= min(self.model.max_length, TOKENS_AROUND)
            and counts == [item.original_token_count for item in items]
            and max([item.prompt_token_count for item in items]) <= min(counts)
            and True not in [item.truncated for item in items]
            and set(map(type, inputs)) == {str}
        )

    def _check_counts(self, field: str, item: pb.Item, given: Input) -> None:
        prompt = self.model.prompt_text(self.reading.get("prompt"), self.reading.get("prompt_name"))
        texts = texts_of(given)
        # Unless the caller refuses, the service may decide it, each replica by its own option.
        truncates = bool(texts) and self.reading.get("truncate") != "refuse"
        count, original = item.token_count, item.original_token_count
        fewest = most = len(given)  # for ids nothing is added and nothing is cut off
        if texts:
            characters = sum(map(len, texts)) + len(prompt)
            fewest, most = 1, characters * TOKENS_PER_CHARACTER + TOKENS_AROUND
            if not self.outputs.spans.beyond_max_length:
                most = min(self.model.max_length, most)
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

    def _check_outputs(
        self, response: pb.EncodeResponse, layouts: dict[str, Layout], inputs: Sequence[Input]
    ) -> None:
        asked = dict[str, tuple[int, int | None]]()
        for _, message, output in self._requested():
            asked |= output.promised(message, self.model)
        if layouts.keys() != asked.keys():
            raise malformed(
                f"it holds {', '.join(sorted(layouts)) or 'nothing'}; "
                f"asked for was {', '.join(asked)}"
            )
        for name, (number, width) in asked.items():
            layout, dtype = layouts[name], DTYPES[number]
            if layout.dtype != dtype:
                raise malformed(f"{name} has the type {layout.dtype}, and {dtype} was asked for")
            for shape in layout.shapes if width is not None else ():
                require(
                    shape[-1] == width,
                    f"{name} has vectors of {shape[-1]} numbers, and {width} were asked for",
                )
        told = Told(response, layouts, inputs, self.model)
        for _, message, output in self._requested():
            output.check(message, told)

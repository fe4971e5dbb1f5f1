"""The seam between an output and what loops over outputs.

One module for each output holds all that is particular to it; `headlight.outputs.registry` lists
them. In the order of a request:

    message_of -> spec_of -> choose -> place -> tensors -> begin -> cut -> announce -> arrays
               -> places_in -> result

`tensors` is the heart: sizes, layouts, chunks, text and a client's checks follow from it. The
first step and the last two are a client's, which resolves the same choice.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from headlight.errors import Phrase
from headlight.outputs.answer_places import places_of_tokens
from headlight.outputs.layout import Layout, Tensor
from headlight.refusals import Argument
from headlight.spec import TokenChoice

if TYPE_CHECKING:
    from headlight.description import Limits, ModelDescription
    from headlight.interface.arguments import Input
    from headlight.outputs.answer_numbers import Kind
    from headlight.outputs.vector_forms import AvailableForms
    from headlight.results import ModelRef, TokenList
    from headlight.runtime.values import (
        Architecture,
        Array,
        Arrays,
        Floats,
        GraphRole,
        Ids,
        Tokenized,
    )


def that_fit(layers: Sequence[int], fits: Phrase, size: int, room: int) -> dict[str, Argument]:
    """Return how many layers, of all that have `size` bytes, fit into `room`; empty: none."""
    fitting = room * len(layers) // size
    return {"fits": fits, "fitting": fitting, "among": len(layers)} if fitting > 0 else {}


class Item(Protocol):
    """One input of a batch; see `headlight.runtime.encode_items.EncodeItem`."""

    @property
    def ids(self) -> Ids: ...
    @property
    def selection(self) -> Mapping[str, Any]: ...
    @property
    def places(self) -> Mapping[str, Any]: ...
    @property
    def left_out(self) -> int: ...
    @property
    def matched(self) -> Ids | None: ...


def part_name(output: str, at: int) -> str:
    """Return the name of the stacked tensor at a place of an output."""
    return f"{output}[{at}]"


class Work:
    """What one output needs of one batch.

    Attributes:
        names: graph outputs to fetch.
        runs: whether the graph must run.
    """

    runs = True

    def __init__(self, output: Output, items: Sequence[Item]) -> None:
        self._output, self._items = output, items
        choices = [item.selection.get(output.name) for item in items]
        self.names = output.fetched([each for each in choices if each is not None])

    def feeds(self) -> Arrays:
        """Return inputs of the graph."""
        return {}

    def buffers(self) -> Arrays:
        """Return arrays that graph outputs are to be written to."""
        return {}

    def cut(self, row: int, outputs: Arrays) -> Arrays:
        """Return one item's tensors by name, without padding, in memory of their own."""
        item = self._items[row]
        choice = item.selection.get(self._output.name)
        return {} if choice is None else self._output.cut(choice, item, outputs, row)


class Output:
    """An output.

    Attributes:
        name: in requests, answers, metrics, reports and JSON.
        extras: tensors that an answer may have besides the one of its name.
        axes: of one input's tensor.
        chosen: field of an answer with the tokens of each input, if some are chosen.
        role: the cheapest graph that has it.
        reads: graph outputs, with a row for each token, from which it is computed.
        layered: whether a tensor of an input has layers.
        stacked: whether each input has one row of a common tensor, and not a tensor of its own.
        selects: whether its graph has selectors, which are fed even if it is not requested.
        behind_pooling: whether it needs the layers behind pooling, if the model has some.
        tolerance: output whose tolerance applies to it; empty: none is measured.
        floor: the least tolerance in fp32, of an output that is measured by itself.
        plain: choice of a request that only names it; None: that is no request.
        by_row: whether a distance is divided by the size of its row: rounding grows with it.
        by_number: whether it is divided by the size of each number, if that is above 1.
    """

    name = ""
    extras: tuple[str, ...] = ()
    axes: tuple[str, ...] = ("token", "value")
    chosen = ""
    role: GraphRole = "embed"
    reads: tuple[str, ...] = ()
    layered = False
    stacked = False
    selects = False
    behind_pooling = False
    tolerance = ""
    floor = 0.0
    plain: Any = None
    by_row = False
    by_number = False

    def __init__(self) -> None:
        self.tensor_names = (self.name, *self.extras)

    # From a request to a choice that fits the model.

    def checked(self, spec: Any, inputs: int) -> Any:
        """Return a caller's spec for so many inputs. Raises InvalidInput if none can be sent."""
        return spec

    def part(self, spec: Any, inputs: range) -> Any:
        """Return a checked spec for some of its inputs."""
        return spec

    def choose(self, spec: Any, model: ModelDescription, forms: AvailableForms) -> Any:
        """Resolve a spec against a model.

        Args:
            spec: as requested.
            model: the model.
            forms: that its pooled vectors can have.

        Raises:
            InvalidInput: naming the field and the remedy.
        """
        raise NotImplementedError

    def given_by(self, architecture: Architecture) -> bool:
        """Return whether the graphs of a model of this shape have it."""
        return True

    def whole(self, architecture: Architecture) -> Any:
        """Return the choice of everything, for measurements and warm-up; None: there is none."""
        return self.plain

    def needs_tokens(self, choice: Any) -> bool:
        """Return whether inputs must be tokenised with all details."""
        return bool(getattr(choice, "needs_tokens", False))

    def any_length(self, choice: Any) -> bool:
        """Return whether a text may be longer than the model takes."""
        return False

    def one_size(self, choice: Any) -> bool:
        """Return whether the tensors of every input have the same size, and no input a place."""
        return self.stacked

    def place(self, choice: Any, tokenized: Tokenized, pooling: str) -> Any:
        """Return the tokens of one input that a choice selects; None: all.

        Raises:
            InvalidInput: the input lacks them.
        """
        return None

    # Known before anything runs.

    def tensors(
        self, choice: Any, place: Any, count: int, model: Architecture | ModelDescription
    ) -> tuple[Tensor, ...]:
        """Return the tensors of one input of `count` tokens, of those that `place` selects."""
        raise NotImplementedError

    def layouts(
        self,
        choice: Any,
        places: Sequence[Any],
        counts: Sequence[int],
        model: Architecture | ModelDescription,
    ) -> dict[str, Layout]:
        """Return the layouts of the tensors of all inputs, by name."""
        if self.stacked:
            every = self.tensors(choice, places[0], counts[0], model)
            return {each.name: Layout.stacked(each, len(counts)) for each in every}
        rows = [
            self.tensors(choice, place, count, model)
            for place, count in zip(places, counts, strict=True)
        ]
        layers = self.layers(choice)
        return {tensors[0].name: Layout.of(tensors, layers) for tensors in zip(*rows, strict=True)}

    def layers(self, choice: Any) -> tuple[int, ...]:
        """Return the absolute layers of its tensors; empty: they have none."""
        layers: tuple[int, ...] = choice.layers if self.layered else ()
        return layers

    def most_spelled(self, choice: Any) -> int:
        """Return the most terms of an input whose spelling the answer has."""
        return 0

    def max_bytes(self, choice: Any) -> int | None:
        """Return the bytes that a request allows."""
        return None

    def smaller(
        self, choice: Any, items: Sequence[Item], size: int, room: int
    ) -> dict[str, Argument]:
        """Return `fits`, what of a choice of `size` bytes fits into `room`; empty: nothing does."""
        return that_fit(choice.layers, Phrase.LAYERS_FIT, size, room) if self.layered else {}

    # The graph.

    def fetched(self, choices: Sequence[Any]) -> list[str]:
        """Return the graph outputs that choices need."""
        return list(self.reads) if choices else []

    def begin(
        self, items: Sequence[Item], architecture: Architecture, longest: int, unit: bool, gpu: bool
    ) -> Work:
        """Return the work of one batch, padded to `longest` tokens.

        `unit`: whether pooled vectors have unit length unless a request says otherwise. `gpu`:
        whether the graph runs on one.
        """
        return Work(self, items)

    def cut(self, choice: Any, item: Item, outputs: Arrays, row: int) -> Arrays:
        """Return the tensors of one row of a batch; see `Work.cut`."""
        raise NotImplementedError

    def unit(self, choice: Any, usual: bool) -> bool:
        """Return whether its vectors have unit length; `usual`: whether pooled vectors have."""
        return False

    def usable(self, choice: Any, result: Arrays, usual: bool) -> bool:
        """Return whether no vector that should have unit length has only zeros."""
        return not self.unit(choice, usual) or bool(result[self.name].any(axis=-1).all())

    # Proof. `forms` are other choices whose numbers follow from those of everything.

    forms: Sequence[str] = ()

    def graph_shapes(self, architecture: Architecture) -> dict[str, tuple[int, ...]]:
        """Return the graph outputs that it needs, with their shapes; 0 for sizes that vary."""
        return {}

    def form(self, name: str, architecture: Architecture) -> Any:
        """Return the choice of one of `forms`."""
        raise NotImplementedError

    def form_error(self, name: str, result: Arrays, answer: Floats) -> float:
        """Return the distance of a form from PyTorch's numbers for everything."""
        raise NotImplementedError

    def expected(self, answers: Mapping[str, Floats]) -> Floats | None:
        """Return PyTorch's numbers for everything, from those of a golden input."""
        return answers.get(self.name)

    # The contract, both directions.

    def message_of(self, spec: Any) -> Any:
        """Encode a checked spec."""
        raise NotImplementedError

    def spec_of(self, message: Any) -> Any:
        """Decode a request. Raises InvalidInput if this side does not know a value."""
        raise NotImplementedError

    def entries(
        self, message: Any, architecture: Architecture, tokens: int, limits: Limits
    ) -> Iterable[tuple[str, int, int]]:
        """Yield the lists of a request: field, entries, and the most that make sense.

        Raises:
            InvalidInput: another bound is crossed.
        """
        return ()

    def announce(self, response: Any, choice: Any, items: Sequence[Item]) -> None:
        """Put the meaning of its tensors, of one item for each input, into an answer."""
        if self.chosen and self.name in items[0].places:
            for item in items:
                getattr(response, self.chosen).add(indices=item.places[self.name])

    def tokens(self, choice: Any) -> TokenChoice | None:
        """Return the requested tokens; None: the tokenizer's choice, in the order of the text."""
        return "all"

    def places_in(
        self, response: Any, choice: Any, counts: Sequence[int], inputs: Sequence[Input]
    ) -> Sequence[Any]:
        """Return the place of each input that an answer names: what `announce` has put there.

        Raises:
            BadAnswer: it is not one that the choice selects.
        """
        if not self.chosen:
            return [None] * len(counts)
        places = getattr(response, self.chosen)
        return places_of_tokens(self.chosen, places, counts, self.tokens(choice))

    def kind(self, tensor: str, choice: Any, usual: bool) -> Kind:
        """Return the kind that the numbers of a tensor must be; `usual` as in `unit`."""
        return "unit" if self.unit(choice, usual) else "finite"

    # The answer.

    def arrays(self, choice: Any, results: Sequence[Arrays]) -> Mapping[str, Sequence[Array]]:
        """Return the numbers of all inputs by tensor: a part for each, or the parts of a stack."""
        return {
            name: [result[name] for result in results]
            for name in self.tensor_names
            if name in results[0]
        }

    def spelled(self, result: Arrays) -> Ids:
        """Return the terms of one input whose spelling the answer has, if `most_spelled`."""
        raise NotImplementedError

    def result(
        self, choice: Any, place: Any, arrays: Arrays, tokens: TokenList, model: ModelRef
    ) -> Any:
        """Return what Python callers get for one input. Raises BadAnswer for impossible numbers."""
        raise NotImplementedError

    def counted(self, result: Any, original: int, encoded: int) -> Any:
        """Return a result with the tokens of its input, before truncation and after it."""
        return result

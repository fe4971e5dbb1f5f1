"""The served models: their outputs, their limits and their metrics."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary

from headlight.description import Limits
from headlight.errors import InvalidInput, NotFound, Reason, Unavailable
from headlight.outputs.registry import OUTPUTS
from headlight.results import ModelRef
from headlight.runtime import Runtime
from headlight.runtime.encode_items import Selection
from headlight.runtime.tokenization.input_checks import TRUNCATIONS, Truncation
from headlight.spec import EmptyTexts, SpecialTokens
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import Density
from headlight_service.core.admission.shed_error import reason_of
from headlight_service.core.requests.request import OutputSpec
from headlight_service.core.scheduler.scheduler import Scheduler
from headlight_service.telemetry.metrics import ModelMetrics

LEAST_TOKEN_INFO_BYTES = 8  # for one token in an answer: id, piece, start, end, special, segment


def names_of(runtime: Runtime, served_names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return all names of a model: the given ones, its bundle's, its Hub id and that id's end."""
    manifest = runtime.bundle.manifest
    hub = manifest.source.get("hub")
    hub_id = str(hub.get("model", "")) if isinstance(hub, dict) else ""
    names = (*served_names, manifest.name, hub_id, hub_id.rpartition("/")[2])
    return tuple(dict.fromkeys(filter(None, names)))


class ServedModel:
    """A runtime with its limits, its part of the queue and its metrics.

    Attributes:
        description: its task, its outputs and all else that clients may know, limits included.
        ref: reference to its weights.
        names: names by which requests address it; answers of other tools' protocols have the first.
        accepts: accepted kinds of input, among "text", "pair", "ids".
        max_characters: most characters of one text that is not truncated.
        max_characters_read: most characters that are read of one that is.
        special_tokens: reading of special tokens unless a request sets it.
        truncation: treatment of a text that is too long unless a request sets it.
        empty_texts: treatment of an empty text unless a request sets it.
        default_prompt: prompt before texts unless a request names another.
        max_length: most tokens of one input.
        density: tokens per character of its texts.
    """

    def __init__(
        self,
        runtime: Runtime,
        limits: Limits,
        scheduler: Scheduler,
        admission: Admission,
        metrics: ModelMetrics,
        max_characters: int,
        special_tokens: SpecialTokens = "parse",
        truncation: Truncation = "refuse",
        served_names: Sequence[str] = (),
        empty_texts: EmptyTexts = "refuse",
        max_characters_read: int | None = None,
    ) -> None:
        self.runtime = runtime
        self.description = dataclasses.replace(
            runtime.model(),
            limits=limits,
            special_tokens=special_tokens,
            truncation=next(name for name, mode in TRUNCATIONS.items() if mode == truncation),
        )
        self.limits = limits
        self.scheduler = scheduler
        self.admission = admission
        self.metrics = metrics
        self.max_characters = max_characters
        self.max_characters_read = max_characters_read or max_characters
        self.special_tokens: SpecialTokens = special_tokens
        self.truncation: Truncation = truncation
        self.empty_texts: EmptyTexts = empty_texts
        self.ref: ModelRef = self.description.ref
        self.names = names_of(runtime, served_names)
        self.accepts = self.description.accepts
        self.default_prompt = runtime.prompts.choose(None, None)
        self.max_length = self.description.max_length
        self.density = Density()
        self._selections = WeakKeyDictionary[OutputSpec, Selection]()

    @property
    def name(self) -> str:
        """The first of its names."""
        return self.names[0]

    @property
    def max_tokenized(self) -> int:
        """Most tokens of one request for only tokens."""
        return self.limits.max_unary_response_bytes // LEAST_TOKEN_INFO_BYTES

    @property
    def most_tokens(self) -> int:
        """Most tokens of one request for vectors, whatever it takes of the queue at once."""
        return self.limits.max_items * self.max_length

    def gives(self, output: str) -> bool:
        """Return whether an output can be requested."""
        return output in self.description.outputs

    def check_gives(self, output: str, field: str) -> None:
        """Refuse a request for an output that the model does not give.

        Raises:
            InvalidInput: naming `field`, and why.
        """
        if not self.gives(output):
            is_off = output in self.runtime.bundle.manifest.outputs
            reason = Reason.ATTENTION_OFF if is_off else Reason.GIVES_NO
            names = ", ".join(self.description.outputs)
            raise InvalidInput(field, reason, what=output, names=names)

    def check_items(self, field: str, count: int) -> None:
        """Refuse more inputs than a request may have, before they become objects.

        Raises:
            InvalidInput: naming `field`.
        """
        if count > self.limits.max_items:
            raise InvalidInput(field, Reason.ENTRIES, count=count, most=self.limits.max_items)

    def select(self, outputs: OutputSpec) -> Selection:
        """Resolve requested outputs, once for each object. Raises InvalidInput."""
        found = self._selections.get(outputs)
        if found is None:
            for name, spec in outputs.specs.items():
                # Those that follow from others are refused where they are resolved.
                if spec not in (None, False) and OUTPUTS[name].tolerance == name:
                    self.check_gives(name, f"outputs.{name}")
            found = self._selections[outputs] = self.runtime.select(**outputs.specs)
        return found


@contextlib.contextmanager
def counted(model: ServedModel) -> Iterator[None]:
    """Count a message that cannot be decoded as a rejected request."""
    try:
        yield
    except Exception as error:
        model.metrics.rejected[reason_of(error)].inc()
        raise


class Models:
    """The models of a process, by their names; none until the first is ready."""

    def __init__(self) -> None:
        self._models: list[ServedModel] = []
        self._by_name: dict[str, ServedModel] = {}

    def add(self, model: ServedModel) -> None:
        """Serve one more model. Another name than its bundle's stays the model's that has it."""
        self._models.append(model)
        for name in model.names:
            self._by_name.setdefault(name, model)
        self._by_name[model.ref.name] = model

    @property
    def all(self) -> tuple[ServedModel, ...]:
        """All models, in the order in which they were added."""
        return tuple(self._models)

    @property
    def by_name(self) -> Mapping[str, ServedModel]:
        """The models by each name, in the order in which they were added."""
        return self._by_name

    def get(self, name: str = "") -> ServedModel:
        """Return the model that a request names; without a name, the only model.

        Raises:
            Unavailable: the first model is still being loaded.
            NotFound: there is none of that name.
            InvalidInput: none is named, and there are several.
        """
        first = self.first
        model = self._by_name.get(name)
        if model is not None:
            return model
        if not name and len(self._models) == 1:
            return first
        served = ", ".join(self._by_name)
        if name:
            raise NotFound(Reason.NOT_SERVED, "model", names=served)
        raise InvalidInput("model", Reason.MODEL_NAME_EMPTY, names=served)

    @property
    def first(self) -> ServedModel:
        """The first model; its limits bound streams. Raises Unavailable: it is not loaded yet."""
        if not self._models:
            raise Unavailable(Reason.LOADING)
        return self._models[0]

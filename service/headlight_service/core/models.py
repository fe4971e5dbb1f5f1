"""The served models: their outputs, their limits, their metrics, and the set of them."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from weakref import WeakKeyDictionary, WeakValueDictionary

from headlight.description import Limits
from headlight.errors import HeadlightError, InvalidInput, NotFound, Reason, Unavailable
from headlight.outputs.registry import OUTPUTS
from headlight.results import ModelRef
from headlight.runtime import Runtime
from headlight.runtime.encode_items import Selection
from headlight.runtime.tokenization.input_checks import TRUNCATIONS, Truncation
from headlight.spec import EmptyTexts, SpecialTokens
from headlight_service.core.admission.admission_control import Admission
from headlight_service.core.admission.estimates import Density, WaitEstimate
from headlight_service.core.admission.shed_error import label_of
from headlight_service.core.requests.request import OutputSpec
from headlight_service.core.scheduler.scheduler import Scheduler
from headlight_service.telemetry.metrics import ModelMetrics

_SERIAL = itertools.count(1)
KEY = re.compile(r"@.*#\d+$", re.DOTALL)  # name@version#number; no name ends so
RENAME = "serve another version, swap it, or give one of them another name"
LEAST_TOKEN_INFO_BYTES = 8  # for one token in an answer: id, piece, start, end, special, segment


def names_of(runtime: Runtime, served_names: Sequence[str] = ()) -> tuple[str, ...]:
    """Return all names of a model: the given ones, its bundle's, its Hub id and that id's end."""
    manifest = runtime.bundle.manifest
    hub = manifest.source.get("hub")
    hub_id = str(hub.get("model", "")) if isinstance(hub, dict) else ""
    names = (*served_names, manifest.name, hub_id, hub_id.rpartition("/")[2])
    return tuple(dict.fromkeys(filter(None, names)))


class ServedModel:
    """A runtime with its limits, its part of the queue and its metrics: one version of a model.

    Attributes:
        key: its name, version and a number, unique in the process: of its lanes in the scheduler,
            and for requests that were decoded for it.
        scheduler, admission: those of the process.
        estimate: its queued work.
        description: its task, its outputs and all else that clients may know, limits included.
        ref: reference to its weights.
        names: names by which requests address it, unless another model has them; see `Models`.
        name: the first of these that it has; answers of other tools' protocols have it.
        accepts: accepted kinds of input, among "text", "pair", "ids".
        max_characters: most characters of one text that is not truncated.
        max_characters_read: most characters that are read of one that is.
        special_tokens: reading of special tokens unless a request sets it.
        truncation: treatment of a text that is too long unless a request sets it.
        empty_texts: treatment of an empty text unless a request sets it.
        default_prompt: prompt before texts unless a request names another.
        max_length: most tokens of one input.
        density: tokens per character of its texts.
        output_specs: requested outputs of earlier messages, by their spelling; see the decoder.
        bound: requests that were admitted for it and have not ended. With the queue's lock held.
        retired: whether it takes no more requests. With the queue's lock held.
        gone: set once it is retired, its requests have ended, and no engine runs a batch of it.
    """

    def __init__(
        self,
        runtime: Runtime,
        limits: Limits,
        scheduler: Scheduler,
        admission: Admission,
        estimate: WaitEstimate,
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
        self.estimate = estimate
        self.metrics = metrics
        self.max_characters = max_characters
        self.max_characters_read = max_characters_read or max_characters
        self.special_tokens: SpecialTokens = special_tokens
        self.truncation: Truncation = truncation
        self.empty_texts: EmptyTexts = empty_texts
        self.ref: ModelRef = self.description.ref
        self.names = names_of(runtime, served_names)
        self.name = self.names[0]
        self.accepts = self.description.accepts
        self.default_prompt = runtime.prompts.choose(None, None)
        self.max_length = self.description.max_length
        self.density = Density()
        self.key = f"{self.ref.name}@{self.ref.version}#{next(_SERIAL)}"
        self.output_specs = dict[bytes, OutputSpec]()
        self.bound = 0
        self.retired = False
        self.gone = threading.Event()
        self._selections = WeakKeyDictionary[OutputSpec, Selection]()

    @property
    def versioned_names(self) -> tuple[str, ...]:
        """Its names with its version, as name@version; none if it has no version."""
        version = self.ref.version
        return tuple(f"{name}@{version}" for name in self.names) if version else ()

    @property
    def max_tokenized(self) -> int:
        """Most tokens of one request for only tokens."""
        return self.limits.max_unary_response_bytes // LEAST_TOKEN_INFO_BYTES

    @property
    def most_tokens(self) -> int:
        """Most tokens of one request for vectors, whatever it takes of the queue at once."""
        return self.limits.max_items * self.max_length

    def release(self) -> None:
        """End one request that `Models.bind` has bound. Call it with the queue's lock held."""
        self.bound -= 1
        self._go_if_idle()

    def retire(self) -> None:
        """Take no more requests, and go with the last. Call it with the queue's lock held."""
        self.retired = True
        self._go_if_idle()

    def _go_if_idle(self) -> None:
        if self.retired and not self.bound:
            self.scheduler.remove(self.key, self.gone.set)

    def gives(self, output: str) -> bool:
        """Return whether an output can be requested."""
        return output in self.description.outputs

    def serves(self, *needs: str) -> bool:
        """Return whether it has one of these tasks, or gives an output of that name."""
        return self.description.task in needs or any(map(self.gives, needs))

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
        selection = self._selections.get(outputs)
        if selection is None:
            for name, spec in outputs.specs.items():
                # Those that follow from others are refused where they are resolved.
                if spec not in (None, False) and OUTPUTS[name].tolerance == name:
                    self.check_gives(name, f"outputs.{name}")
            selection = self._selections[outputs] = self.runtime.select(**outputs.specs)
        return selection


@contextlib.contextmanager
def counted(model: ServedModel) -> Iterator[None]:
    """Count a message that cannot be decoded as a rejected request."""
    try:
        yield
    except Exception as error:
        model.metrics.rejected[label_of(error)].inc()
        raise


class Models:
    """The models of a process, by their names; none until the first is ready.

    Any thread reads it, without a lock: a change replaces what it reads. A name that several models
    have belongs to the one whose bundle has it, else to the one that was added first. The others
    are found by the name and their version, as name@version.
    """

    def __init__(self) -> None:
        self._models: tuple[ServedModel, ...] = ()
        self._by_name: Mapping[str, ServedModel] = {}
        self._addresses: Mapping[str, ServedModel] = {}
        self._by_key = WeakValueDictionary[str, ServedModel]()
        self._aliases: Mapping[str, ServedModel] = {}
        self._default: ServedModel | None = None
        self._limits: Limits | None = None
        self._had_any = False

    def add(self, model: ServedModel, *, default: bool = False) -> None:
        """Serve one more model.

        Args:
            model: the model, ready to serve.
            default: serve requests that name no model with it; otherwise, the first one does.

        Raises:
            ValueError: another model has its first name, and the same version.
        """
        with model.admission.lock:
            self._by_key[model.key] = model  # first: a request may be decoded for it at once
            self._replace((*self._models, model), model if default else self._default)

    def swap(self, name: str, new: ServedModel) -> ServedModel:
        """Replace a model in one step, and return the old one; see `remove`.

        Raises:
            NotFound: there is none of that name.
            ValueError: the new model does not have the first name of the old one, or see `add`.
        """
        with new.admission.lock:
            old = self.get(name)
            if old.names[0] not in new.names:
                raise ValueError(f"{new.names[0]} is not named {old.names[0]}")
            models = tuple(new if each is old else each for each in self._models)
            aliases = {a: new if each is old else each for a, each in self._aliases.items()}
            self._by_key[new.key] = new
            self._replace(models, new if old is self._default else self._default, aliases)
            old.retire()
        return old

    def remove(self, name: str) -> ServedModel:
        """Serve a model no longer, and return it. Its `gone` is set once its requests have ended.

        Raises:
            NotFound: there is none of that name.
        """
        with self.get(name).admission.lock:
            old = self.get(name)
            models = tuple(each for each in self._models if each is not old)
            self._replace(models, None if old is self._default else self._default)
            old.retire()
        return old

    def set_alias(self, alias: str, name: str) -> ServedModel:
        """Let an alias address another model, in one step, and return that model.

        A version that replaces the model takes it over.

        Args:
            alias: a new name, or an alias of any model.
            name: of the model, as name or name@version.

        Raises:
            NotFound: there is none of that name.
            ValueError: the alias is a model's own name.
        """
        with self.get(name).admission.lock:
            model = self.get(name)
            fixed = {name for each in self._models for name in _own_names(each)}
            if alias in fixed:
                raise ValueError(f"{alias} is the name of a model, not an alias; choose another")
            self._replace(self._models, self._default, {**self._aliases, alias: model})
        return model

    def arrange(
        self, names: Mapping[ServedModel, Sequence[str]], default: ServedModel
    ) -> list[ServedModel]:
        """Serve some of the models and no others, in one step, and return the others; see `remove`.

        Args:
            names: names of each model besides those of its bundle, in the order of the models.
            default: serves requests that name no model.

        Raises:
            ValueError: two models have one name and version; then nothing changes.
        """
        with default.admission.lock:
            before = {model: model.names for model in names}
            removed = [each for each in self._models if each not in names]
            try:
                for model, served_names in names.items():
                    model.names = names_of(model.runtime, served_names)
                self._replace(tuple(names), default)
            except ValueError:
                for model, kept in before.items():
                    model.names = kept
                raise
            for each in removed:
                each.retire()
        return removed

    def _replace(
        self,
        models: tuple[ServedModel, ...],
        default: ServedModel | None,
        aliases: Mapping[str, ServedModel] | None = None,
    ) -> None:
        aliases = self._aliases if aliases is None else aliases
        aliases = {name: model for name, model in aliases.items() if model in models}
        owners = {**{model.ref.name: model for model in reversed(models)}, **aliases}
        for model in models:
            owners |= {name: model for name in model.names if name not in owners}
        for model in models:
            owners |= {name: model for name in model.versioned_names if name not in owners}
        first = dict[ServedModel, str]()
        for model in models:
            address = next((n for n in _first_names(model) if owners[n] is model), None)
            if address is None:
                raise ValueError(f"{model.names[0]} is a name of another model; {RENAME}")
            first[model] = address
        for model, address in first.items():
            model.name = address
        # In the order of the models.
        listed = [name for model in models for name in (*model.names, model.name)]
        self._by_name = {name: owners[name] for name in (*listed, *aliases)}
        self._addresses = owners
        self._aliases = aliases
        limits = [dataclasses.asdict(model.limits) for model in models]
        self._limits = (
            Limits(**{name: max(each[name] for each in limits) for name in limits[0]})
            if limits
            else None
        )
        self._default = default or (models[0] if models else None)
        self._models = models
        self._had_any = self._had_any or bool(models)

    @property
    def all(self) -> tuple[ServedModel, ...]:
        """All models, in the order in which they were added."""
        return self._models

    @property
    def default(self) -> ServedModel | None:
        """The model of requests that name none."""
        return self._default

    @property
    def by_name(self) -> Mapping[str, ServedModel]:
        """The models by each name, in the order in which they were added.

        Names with a version are left out, unless the model has no other.
        """
        return self._by_name

    @property
    def limits(self) -> Limits:
        """The largest of each limit, for what is not one model's yet.

        Raises:
            Unavailable: the first model is still being loaded.
            NotFound: the last one was removed.
        """
        if self._limits is None:
            raise self._none()
        return self._limits

    def addresses(self, model: ServedModel) -> tuple[str, ...]:
        """Return all names by which requests find a model, its first name first."""
        names = (model.name, *(name for name, each in self._addresses.items() if each is model))
        return tuple(dict.fromkeys(names))

    def serves(self, name: str) -> bool:
        """Return whether a name is one of a model's."""
        return name in self._addresses

    def get(self, name: str = "", *needs: str) -> ServedModel:
        """Return the model that a request names; without a name, the default one.

        Args:
            name: one of its names, as name or name@version.
            needs: tasks or outputs, one of which a request without a name needs; then another model
                answers if the default one has none of them.

        Raises:
            Unavailable: the first model is still being loaded.
            NotFound: there is none of that name, or none at all any more.
        """
        if name:
            model = self._addresses.get(name)
        else:
            model = self._default
            if needs and model is not None and not model.serves(*needs):
                model = next((each for each in self._models if each.serves(*needs)), model)
        if model is not None:
            return model
        if self._default is None:
            raise self._none()
        raise NotFound(Reason.NOT_SERVED, "model", names=", ".join(self._by_name))

    def _none(self) -> HeadlightError:
        """Return the error of a process without a model: not yet, or no longer."""
        return NotFound(Reason.NO_MODEL) if self._had_any else Unavailable(Reason.LOADING)

    def bind(self, name: str = "") -> ServedModel:
        """Return the model of a request, which stays until the request releases it.

        Args:
            name: the key of the model that it was decoded for, or a name as in `get`.

        Raises:
            Unavailable: that model was replaced meanwhile, and has gone. Or see `get`.
            NotFound: see `get`.
        """
        decoded_for = self._by_key.get(name)
        if decoded_for is None and KEY.search(name):
            raise Unavailable(Reason.REPLACED)
        while True:
            model = decoded_for or self.get(name)
            with model.admission.lock:
                # One that was replaced lives until its last request ends.
                if not model.retired or (decoded_for is not None and model.bound):
                    model.bound += 1
                    return model
            if decoded_for is not None:
                raise Unavailable(Reason.REPLACED)


def _own_names(model: ServedModel) -> tuple[str, ...]:
    """Return the names of a model that no alias can take."""
    return (model.names[0], model.ref.name, model.name, *model.versioned_names)


def _first_names(model: ServedModel) -> Iterator[str]:
    """Return the names that answers may give a model: its first one, if need be with a version."""
    yield model.names[0]
    yield from model.versioned_names[:1]

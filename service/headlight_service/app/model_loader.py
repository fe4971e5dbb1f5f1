"""Loader: the models of the options and of the admin service, and each change of what is served.

All changes of the set of models run here, on one thread, one after the other. A version that cannot
be loaded, or whose results are not PyTorch's, never takes a request: the one before stays.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import re
from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, ParamSpec, TypeVar

from headlight.errors import HeadlightError, InvalidInput, NotFound, Reason, Unavailable
from headlight.model_store.model_source import MANIFEST
from headlight.runtime import Runtime
from headlight_service.app.allocator import collect
from headlight_service.app.executor import Executor
from headlight_service.app.model_identity import (
    Identity,
    Key,
    identity_of,
    key_of,
    label_of,
    real_folder,
    source_of,
    stat_of,
)
from headlight_service.app.model_preparation import ExportFailed
from headlight_service.app.model_versions import ModelVersions, check_replaces
from headlight_service.app.startup_steps import StartupSteps
from headlight_service.config.command_line import ConfigError
from headlight_service.config.model_entries import Entry, entries_of
from headlight_service.config.option_types import MODEL_NAME
from headlight_service.config.options import Config
from headlight_service.core.models import Models, ServedModel, names_of
from headlight_service.core.scheduler.engine_health import EngineLost
from headlight_service.core.worker_threads import lower_priority
from headlight_service.telemetry.json_logs import describe
from headlight_service.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from headlight_service.telemetry.otlp import Tracing

log = logging.getLogger("headlight_service.app.model_loader")
T = TypeVar("T")
P = ParamSpec("P")
BELOW_ROOT = re.compile(r"\w[\w.-]*(/\w[\w.-]*)*", re.ASCII)  # no step leads upwards
FILE_LABEL = "models-file"  # as `model` of the metric, if the file itself cannot be used


class Loaded(NamedTuple):
    """A served model, and what it was made of.

    Attributes:
        entry: the options; its names are those that the model has now.
        identity: the files of the bundle.
        model: takes the requests.
        by_admin: whether it is in no file: only the admin service unloads it.
    """

    entry: Entry
    identity: Identity
    model: ServedModel
    by_admin: bool = False

    def is_of(self, entry: Entry) -> bool:
        """Return whether an entry has the same options; names and the default do not count."""
        names = entry.config.served_model_name
        return dataclasses.replace(self.entry.config, served_model_name=names) == entry.config


class Row(NamedTuple):
    """A model as the admin service lists it.

    Attributes:
        label: its entry's name, or the last part of its source.
        source: as the options have it.
        model: None: it is not served, because no version could be loaded.
        problem: why the last load was refused; empty: it was not.
    """

    label: str
    source: str
    model: ServedModel | None
    problem: str


class ModelLoader:
    """Loader of a process. `submit` runs one of the other methods on its thread.

    Attributes:
        attempted: the state before the start, or before the last reload.
    """

    def __init__(
        self,
        config: Config,
        models: Models,
        metrics: Metrics,
        steps: StartupSteps,
        tracing: Tracing | None = None,
        on_lost: Callable[[EngineLost], None] = lambda error: None,
        on_change: Callable[[], object] = lambda: None,
    ) -> None:
        """Prepare within the running event loop, which runs exports.

        Args:
            config: the options of the process.
            models: receives the models.
            metrics: receive their series, and the counts of loads.
            steps: of the start.
            tracing: makes spans of batches.
            on_lost: called on any thread if the engine of a model does not recover.
            on_change: called on the loader's thread after each change of what is served.
        """
        self._config = config
        self._models = models
        self._metrics = metrics
        self._steps = steps
        self._on_change = on_change
        self._versions = ModelVersions(config, metrics, tracing, on_lost, self.submit)
        self._loaded = dict[Key, Loaded]()
        self._problems = dict[Key, str]()  # why the last load was refused
        self._closed = False
        self.attempted: Identity = ()
        # Includes the threads that libraries start.
        self._thread = ThreadPoolExecutor(1, "load", initializer=lower_priority)

    def submit(self, work: Callable[P, T], *arguments: P.args, **keywords: P.kwargs) -> Future[T]:
        """Run some work of the loader after all that was submitted before.

        Raises:
            Unavailable: the process ends.
        """
        try:
            return self._thread.submit(work, *arguments, **keywords)
        except RuntimeError:
            raise Unavailable(Reason.ENDING) from None

    async def close(self) -> None:
        """Begin nothing more, and end an export. A load that has begun is not waited for."""
        self._closed = True
        self._thread.shutdown(wait=False, cancel_futures=True)
        await self._versions.close()

    # Work of the loader's thread.

    def start(self) -> Executor:
        """Load the models of the options, and return their executor.

        Raises:
            ConfigError, BundleError, ExportFailed: a model cannot be served.
        """
        self.attempted, entries = self.state(), entries_of(self._config)
        keys = {key_of(entry) for entry in entries}
        for number, entry in enumerate(entries, 1):
            self._steps.begin(number, len(entries))
            bundle = self._versions.prepare(entry.config, self._steps)
            loaded, _ = self._open(entry, bundle, self._steps, keys)
            try:
                self._models.add(loaded.model, default=entry.default)
            except ValueError as error:
                self._versions.release(loaded.model)
                raise ConfigError(f"model {number} of {len(entries)}: {error}") from None
            self._loaded[key_of(entry)] = loaded
        labels = [*map(label_of, self._loaded)]
        for label in (FILE_LABEL, *labels) if self._config.models else labels:
            for result in ("loaded", "refused"):  # else `increase` would miss the first of each
                self._metrics.model_loads.labels(label, result)
        assert self._versions.executor is not None
        return self._versions.executor

    def reload(self) -> None:
        """Read the file again, and load what has changed; no error is raised.

        Aliases, the default model and the removals of the file hold only once all its models are
        loaded: a model whose new version is refused must not lose the old one.
        """
        try:
            self.attempted, entries = self.state(), self._entries()
            for entry in entries.values():
                with contextlib.suppress(HeadlightError):  # it is logged
                    self._load(_unaliased(entry), entries)
            if not self._problems.keys() & self._of_file(entries):
                self._arrange(entries)
        except Exception as error:  # whatever it is, what is served stays
            self._refused(FILE_LABEL, ("", FILE_LABEL), error)
        else:
            self._problems.pop(("", FILE_LABEL), None)

    def load(self, name: str) -> ServedModel:
        """Serve the version that the source of a name has now.

        Args:
            name: of an entry of the options, or of a bundle below the models root.

        Raises:
            NotFound: there is none of that name.
            HeadlightError: it was refused.
        """
        try:
            entries = self._entries()
        except ConfigError as error:
            raise self._refused(FILE_LABEL, ("", FILE_LABEL), error) from None
        for key, entry in entries.items():
            loaded = self._loaded.get(key)
            if name == label_of(key) or (loaded and name in loaded.model.names):
                return self._load(entry, entries)
        entry = self._below_root(name)
        return self._load(entry, entries, by_admin=True)

    def unload(self, name: str) -> ServedModel:
        """Serve a model no longer.

        Raises:
            NotFound: there is none of that name.
            InvalidInput: it is the last one, or no name.
        """
        if not name:
            raise InvalidInput("name", Reason.UNNAMED)
        if self._models.all == (self._models.get(name),):
            raise InvalidInput("name", Reason.LAST_MODEL)
        model = self._models.remove(name)  # an alias may lead elsewhere by now
        self._loaded = {k: each for k, each in self._loaded.items() if each.model is not model}
        self._unloaded(model)
        return model

    def set_alias(self, alias: str, name: str) -> ServedModel:
        """Let an alias address another model, in one step. From any thread.

        Raises:
            NotFound: there is no model of that name.
            InvalidInput: the alias cannot be a name, or is a model's own.
        """
        if not MODEL_NAME.fullmatch(alias):
            raise InvalidInput("alias", Reason.ALIAS_FORM)
        try:
            model = self._models.set_alias(alias, name)
        except ValueError as error:
            raise InvalidInput("alias", str(error)) from None
        self._changed("alias_moved", f"{alias} is now {model.key}", model)
        return model

    def list(self) -> list[Row]:
        """Return all models, and those of which no version could be loaded. From any thread."""
        problems = dict(self._problems)
        rows = [
            Row(label_of(key), source_of(each.entry), each.model, problems.pop(key, ""))
            for key, each in self._loaded.items()
        ]
        refused = (Row(label_of(key), key[1], None, problem) for key, problem in problems.items())
        return [*rows, *refused]

    def state(self) -> Identity:
        """Return what a change of the file or of a source changes. Only metadata are read."""
        try:
            sources = [identity_of(Path(source_of(each))) for each in entries_of(self._config)]
        except (ConfigError, OSError, ValueError):
            sources = []
        return (self._config.models and stat_of(self._config.models), *sources)

    # Its parts.

    def _entries(self) -> dict[Key, Entry]:
        """Return the entries of the options, and those that only the admin service has loaded."""
        listed = entries_of(self._config)
        entries = {key_of(entry): entry for entry in listed}
        if len(entries) < len(listed):
            raise ConfigError(f"{self._config.models}: two entries have one name and source")
        for key, each in self._loaded.items():
            if each.by_admin:
                entries.setdefault(key, each.entry)
        return entries

    def _of_file(self, entries: Collection[Key]) -> set[Key]:
        """Return the keys of entries that the admin service has not loaded."""
        return {key for key in entries if not (key in self._loaded and self._loaded[key].by_admin)}

    def _load(
        self, entry: Entry, entries: Collection[Key], *, by_admin: bool = False
    ) -> ServedModel:
        """Serve what the source of an entry has now; nothing is done if it is served already.

        Raises:
            HeadlightError: it was refused, and this was logged and counted.
        """
        key = key_of(entry)
        before, steps = self._loaded.get(key), StartupSteps()
        by_admin = before.by_admin if before else by_admin
        try:
            bundle = self._versions.prepare(entry.config, steps)
            if by_admin and not self._is_below_root(bundle):  # a link may be another one by now
                raise ValueError(f"{bundle} leads out of {self._config.models_root}")
            if before and before.is_of(entry) and before.identity == identity_of(bundle):
                self._problems.pop(key, None)
                return before.model
            loaded, old = self._open(entry, bundle, steps, entries)
            unchanged = self._loaded
            others = {k: each for k, each in unchanged.items() if each is not old}
            # Before it is served: a name that leads to a model leads to one that is listed.
            self._loaded = {**others, key: loaded._replace(by_admin=by_admin)}
            try:
                if old is None:
                    self._models.add(loaded.model, default=entry.default)
                else:
                    self._models.swap(old.model.name, loaded.model)
            except ValueError:
                self._loaded = unchanged
                self._versions.release(loaded.model)
                raise
        except Exception as error:  # whatever it is, the old version stays
            raise self._refused(label_of(key), key, error) from None
        self._problems.pop(key, None)
        self._metrics.model_loads.labels(label_of(key), "loaded").inc()
        self._changed("model_loaded", f"{label_of(key)} is now {loaded.model.key}", loaded.model)
        if old is not None:
            self._versions.drop_later(old.model)
        return loaded.model

    def _open(
        self, entry: Entry, bundle: Path, steps: StartupSteps, entries: Collection[Key]
    ) -> tuple[Loaded, Loaded | None]:
        """Return a version that takes no requests yet, and the one that it replaces, if any.

        Such a version has the names of the one that it replaces: those of the file hold for all
        models in one step, once all are loaded.

        Raises:
            BundleError, ValueError: it cannot be served.
        """
        identity, old, names = identity_of(bundle), None, entry.config.served_model_name

        def names_for(runtime: Runtime) -> tuple[str, ...]:
            nonlocal old, names
            new_names = names_of(runtime, names)
            old = self._old(key_of(entry), new_names[0], entries)
            if old is not None:
                check_replaces(old.model, runtime, new_names)
                names = (old.model.names[0], *old.entry.config.served_model_name)
            return names

        # If a link is swapped meanwhile, all files are still of one folder.
        model = self._versions.open(entry.config, real_folder(bundle), steps, names_for)
        config = dataclasses.replace(entry.config, served_model_name=names)
        return Loaded(entry._replace(config=config), identity, model), old

    def _old(self, key: Key, name: str, entries: Collection[Key]) -> Loaded | None:
        """Return what a version replaces; None: it is served beside the others.

        It is the one of the same entry. If an entry has a new source, it is the one of the same
        first name whose entry has gone.
        """
        if key in self._loaded:
            return self._loaded[key]
        gone = (each for k, each in self._loaded.items() if k not in entries)
        return next((each for each in gone if each.model.names[0] == name), None)

    def _below_root(self, name: str) -> Entry:
        """Return the entry of a bundle below the models root. Raises NotFound."""
        root = self._config.models_root
        if root is not None and BELOW_ROOT.fullmatch(name):
            folder = root.absolute() / name  # no Hub id, even once it is gone
            if self._is_below_root(folder) and (folder / MANIFEST).is_file():
                config = dataclasses.replace(
                    self._config,
                    model=(str(folder),),
                    models=None,
                    bundle=None,
                    bundle_sha256=None,
                    served_model_name=(),
                    max_length=None,
                    pooling=None,
                    revision=None,
                )
                return Entry(config)
        file, below = self._config.models, "" if root is None else f" or a bundle below {root}"
        places = f"an entry of {'the options' if file is None else file}{below}"
        raise NotFound(f"{name!r:.200} is not {places}")

    def _is_below_root(self, folder: Path) -> bool:
        root = self._config.models_root
        return root is not None and real_folder(folder).is_relative_to(os.path.realpath(root))

    def _arrange(self, entries: Mapping[Key, Entry]) -> None:
        """Serve the models of the entries and no others, by their names, in one step."""
        models = {key: self._loaded[key].model for key in entries}
        names = {models[key]: entry.config.served_model_name for key, entry in entries.items()}
        chosen = (models[key] for key, entry in entries.items() if entry.default)
        try:
            removed = self._models.arrange(names, next(chosen, next(iter(names))))
        except ValueError as error:
            raise ConfigError(f"{self._config.models}: {error}") from None
        self._loaded = {k: self._loaded[k]._replace(entry=each) for k, each in entries.items()}
        by_admin = entries.keys() - self._of_file(entries)
        self._problems = {key: each for key, each in self._problems.items() if key in by_admin}
        for model in removed:
            self._unloaded(model)
        self._on_change()

    def _refused(self, label: str, key: Key, error: Exception) -> HeadlightError:
        """Log and count a version that is not served, and return the error for its caller."""
        if self._closed:
            return Unavailable(Reason.ENDING)
        expected = isinstance(error, HeadlightError | ConfigError | ExportFailed | ValueError)
        problem = error.message if isinstance(error, HeadlightError) else str(error)
        self._problems[key] = problem = problem if expected else "an error; see the log"
        self._metrics.model_loads.labels(label, "refused").inc()
        extra = {"event": "model_refused", "model_name": label}
        log.error(
            f"{label} was not loaded, and what was served stays: {problem}",
            extra=extra if expected else {**extra, **describe(error)},
        )
        error.__traceback__ = None  # its frames hold what was loaded
        collect()
        if isinstance(error, ExportFailed):
            return Unavailable(problem)
        return InvalidInput("name", Reason.NOT_LOADED, problem=problem)

    def _changed(self, event: str, message: str, model: ServedModel) -> None:
        ref, names = model.ref, list(self._models.addresses(model))
        extra = {"version": ref.version, "sha256": ref.bundle_sha256, "names": names}
        log.info(message, extra={"event": event, "model_name": ref.name, **extra})
        self._on_change()

    def _unloaded(self, model: ServedModel) -> None:
        self._changed("model_unloaded", f"{model.key} is not served any more", model)
        self._versions.drop_later(model)


def _unaliased(entry: Entry) -> Entry:
    """Return an entry with its name alone, by which it is known, and not as the default."""
    names = entry.config.served_model_name[:1]
    return Entry(dataclasses.replace(entry.config, served_model_name=names))

"""The models of a process, by name. One today; nothing here counts on that."""

from __future__ import annotations

from headlight.errors import InvalidInput, NotFound, Unavailable
from headlight.pb import headlight_pb2 as pb
from headlight_service.core.served_model import ServedModel


class Models:
    """The models served, by name; none until the first is ready."""

    def __init__(self) -> None:
        self._models: dict[str, ServedModel] = {}

    def add(self, model: ServedModel) -> None:
        self._models[model.name] = model

    @property
    def limits(self) -> pb.Limits:
        """Of a stream, which may name a different model in each request: those of the first.

        Raises:
            Unavailable: the first model is still being loaded.
        """
        return self._first().limits

    def get(self, name: str) -> ServedModel:
        """The model a request names; the only one where it names none.

        Raises:
            Unavailable: the first model is still being loaded.
            NotFound: there is none of that name.
            InvalidInput: none is named, and there are several.
        """
        model = self._models.get(name)
        if model is not None:
            return model
        first = self._first()
        served = ", ".join(sorted(self._models))
        if name:
            raise NotFound(f"model: not served here; there is {served}")
        if len(self._models) > 1:
            raise InvalidInput("model", f"is empty, and there are several; name one of {served}")
        return first

    def _first(self) -> ServedModel:
        if not self._models:
            raise Unavailable("the model is still being loaded; try again soon, or another replica")
        return next(iter(self._models.values()))

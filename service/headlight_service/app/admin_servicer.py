"""headlight.admin.v1: loads, unloads and lists models, on an address of its own."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable
from typing import TypeVar

from headlight.errors import DeadlineExceeded, NotFound
from headlight.pb import admin_pb2 as pb
from headlight.pb.admin_pb2_grpc import AdminServiceServicer
from headlight_service.app.model_loader import ModelLoader, Row
from headlight_service.core.models import Models, ServedModel
from headlight_service.frontends.grpc.transport.grpc_call import Call

log = logging.getLogger("headlight_service.app.admin_servicer")
T = TypeVar("T")


class AdminServicer(AdminServiceServicer):
    """The admin service. Its methods run on a call's thread, and wait for the loader's."""

    def __init__(self, loader: ModelLoader, models: Models) -> None:
        self._loader = loader
        self._models = models

    def LoadModel(self, request: pb.LoadModelRequest, call: Call) -> pb.LoadModelResponse:
        model = self._run(call, self._loader.load, request.name)
        return pb.LoadModelResponse(model=self._row(model))

    def UnloadModel(self, request: pb.UnloadModelRequest, call: Call) -> pb.UnloadModelResponse:
        self._run(call, self._loader.unload, request.name)
        return pb.UnloadModelResponse()

    def SetAlias(self, request: pb.SetAliasRequest, call: Call) -> pb.SetAliasResponse:
        _note(call, "SetAlias", request.alias)
        model = self._loader.set_alias(request.alias, request.name)
        return pb.SetAliasResponse(model=self._row(model))

    def ListModels(self, request: pb.ListModelsRequest, call: Call) -> pb.ListModelsResponse:
        return pb.ListModelsResponse(models=map(self._message, self._loader.list()))

    def _run(self, call: Call, work: Callable[[str], T], name: str) -> T:
        """Run some work of the loader, and wait for it, at most until the deadline of the call."""
        _note(call, work.__name__, name)
        left = call.deadline - time.monotonic()
        try:
            return self._loader.submit(work, name).result(None if left == math.inf else left)
        except TimeoutError:
            raise DeadlineExceeded("it goes on; ListModels and the log tell how it ends") from None

    def _row(self, model: ServedModel) -> pb.Model:
        """Return a model as it is listed. Raises NotFound if another call has unloaded it since."""
        row = next((each for each in self._loader.list() if each.model is model), None)
        if row is None:
            raise NotFound(
                f"{model.name}, version {model.ref.version}, was replaced or unloaded meanwhile, "
                "by another call or a reload; ListModels has what is served"
            )
        return self._message(row)

    def _message(self, row: Row) -> pb.Model:
        message = pb.Model(name=row.label, source=row.source, problem=row.problem)
        if row.model is not None:
            ref = row.model.ref
            message.name, message.version = row.model.name, ref.version
            message.bundle_sha256, message.served = ref.bundle_sha256, True
            message.names.extend(self._models.addresses(row.model))
            message.default = row.model is self._models.default
        return message


def _note(call: Call, method: str, name: str) -> None:
    extra = {"event": "admin", "method": method, "client": call.client, "model_name": name[:200]}
    log.info("the admin service was called", extra=extra)

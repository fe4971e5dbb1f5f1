"""ModelStreamInfer: answers in the order of the requests; an error concerns one request."""

from __future__ import annotations

import functools
from collections.abc import Iterator

from headlight.refusals import Edge
from headlight_service.core.requests.answer import Answer
from headlight_service.frontends.grpc.calls.request_stream import Decoded, RequestStream
from headlight_service.frontends.grpc.grpc_status import ErrorStatus
from headlight_service.frontends.oip import inference_messages as oip
from headlight_service.frontends.oip.infer_decoding import decode_infer, edge_of
from headlight_service.frontends.oip.tensor_answers import TensorForm

FINAL = "triton_final_response"  # each request has one response, so each is the last of its request


class InferenceStream(RequestStream[oip.ModelInferRequest, oip.ModelStreamInferResponse]):
    """The server's side of one ModelStreamInfer call."""

    ordered = True

    def decode(self, request: oip.ModelInferRequest) -> Decoded[oip.ModelStreamInferResponse]:
        infer = decode_infer(request, self._pipeline.models, self._call)
        return Decoded(
            infer.request, infer.form, functools.partial(_answered, request.id, infer.form)
        )

    def edge(self, request: oip.ModelInferRequest) -> Edge:
        return edge_of(request)

    def failed(
        self, request: oip.ModelInferRequest, refused: ErrorStatus
    ) -> oip.ModelStreamInferResponse:
        failed = oip.ModelInferResponse(model_name=request.model_name, id=request.id)
        failed.parameters[FINAL].bool_param = True
        return oip.ModelStreamInferResponse(error_message=refused.message, infer_response=failed)


def _answered(
    request_id: str, form: TensorForm, answer: Answer
) -> Iterator[oip.ModelStreamInferResponse]:
    response = form.message(request_id, answer)
    response.parameters[FINAL].bool_param = True
    yield oip.ModelStreamInferResponse(infer_response=response)

"""Request for the tokens of its inputs: no queue, no engine."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Protocol

from headlight.results import ModelRef, TokenList
from headlight_service.core.handle import Handle, SharedResources
from headlight_service.core.requests.request import Request
from headlight_service.core.tokenization import tokenized, tokenizing_job

if TYPE_CHECKING:
    from headlight_service.telemetry.request_trace import RequestTrace


class TokensForm(Protocol):
    """A frontend's encoder of tokens. It is slow, and runs on a thread of the tokenizer."""

    def encode(self, ref: ModelRef, tokens: Iterable[TokenList], inputs: int) -> bytes:
        """Return the answer for so many inputs, whose `tokens` are read one by one.

        Raises:
            InvalidInput: the answer is too large.
        """


class Tokenizing(Handle[bytes]):
    """A request for tokens, step by step."""

    def __init__(
        self,
        shared: SharedResources,
        request: Request,
        form: TokensForm,
        trace: RequestTrace | None,
    ) -> None:
        """Prepare as described at `Pipeline.tokenize`."""
        super().__init__(shared, request, trace)
        self._form = form
        self._tokenized_tokens = 0

    def _admit(self) -> None:
        """Take the bytes, and check that the bucket owes nothing. Then: `_tokenize`."""
        super()._admit()
        self._budget.refuse_early(0, math.inf, computes=False)
        self._begin_tokenizing(tokenizing_job(self.request, self._model))

    def _tokenize(self) -> None:
        """Tokenise, encoding the answer meanwhile; reserve its bytes, and answer."""
        model = self._model
        try:
            answer = self._form.encode(model.ref, self._tokens(), len(self._job.inputs))
        finally:  # refused or not, these were tokenised
            self._budget.charge_tokenizing(self._tokenized_tokens)
        self._take_room(functools.partial(self._finish, answer), len(answer))

    def _tokens(self) -> Iterator[TokenList]:
        for each in tokenized(self._job, self._model.runtime, lambda: self.cancelled):
            self._tokenized_tokens += len(each.ids)
            if each.info is not None:
                yield each.info

"""A killed service, as by the OOM killer.

Waiting callers get an error, and do not wait for ever.
"""

from __future__ import annotations

import threading

from headlight import Client
from headlight.errors import DeadlineExceeded, Overloaded, Unavailable
from tests.system.conftest import bundle_of
from tests.system.processes import Service

CALLERS = 6  # half of them with streams
TOKENS = 1500  # of a text: some tenths of a second
TIMEOUT = 6.0
PATIENCE = 4 * TIMEOUT


def test_callers_of_a_killed_service_get_an_error() -> None:
    """gRPC for Python lets a blocking stream that it retries wait for ever,
    whatever its deadline.
    """
    service, killed, ends = Service(bundle_of("docs-rope")), threading.Event(), list[str]()
    clients = [Client(service.target, timeout=TIMEOUT) for _ in range(CALLERS)]

    def call(client: Client, streamed: bool) -> None:
        text = "word " * TOKENS
        while True:
            try:
                if streamed:
                    client.attend(text, 0)
                else:
                    client.encode([text] * 4)
            except Overloaded:  # on a slow machine, and only while the service lives
                continue
            except (Unavailable, DeadlineExceeded) as error:
                if killed.is_set():
                    ends.append(type(error).__name__)
                    return

    callers = [
        threading.Thread(target=call, args=(client, number % 2 == 0), daemon=True)
        for number, client in enumerate(clients)
    ]
    try:
        for caller in callers:
            caller.start()
        while service.counted("headlight_queue_tokens") < CALLERS / 2 * TOKENS:
            assert all(caller.is_alive() for caller in callers)
        killed.set()
        service.process.kill()
        for caller in callers:
            caller.join(PATIENCE)
        assert len(ends) == CALLERS, "the others wait still"
    finally:
        service.process.kill()
        service.wait()
        assert service.process.stderr is not None
        service.process.stderr.close()
        for client in clients:
            client.close()

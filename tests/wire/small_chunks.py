"""Starts the service with chunks of 2 KiB.

`small_chunks.py PYTHON -W error -m headlight serve OPTIONS`.

Recorded streams then contain chunks of every kind without megabytes of data.
"""

from __future__ import annotations

import runpy
import sys

BYTES = 2048


def main() -> None:
    from headlight_service.frontends.contract import answer_forms
    from headlight_service.frontends.grpc.calls import request_stream

    for module, name in ((answer_forms, "CHUNK_BYTES"), (request_stream, "SMALL_ANSWER_BYTES")):
        assert hasattr(module, name)
        vars(module)[name] = BYTES
    sys.argv = ["serve", *sys.argv[sys.argv.index("serve") + 1 :]]
    runpy.run_module("headlight_service", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    sys.path.insert(0, ".")
    main()

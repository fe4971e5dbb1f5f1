"""Client process that is killed during calls.

It reports when calls are in flight, one of them half read, and then waits.
"""

from __future__ import annotations

import signal
import sys

import grpc

from headlight.pb import headlight_pb2 as pb
from headlight.pb import headlight_pb2_grpc as pb_grpc

LONG = pb.Input(ids=pb.TokenIds(ids=[5] * 900))


def main() -> None:
    """Make calls, report, and wait."""
    stub = pb_grpc.HeadlightServiceStub(grpc.insecure_channel(sys.argv[1]))
    large = pb.EncodeRequest(
        inputs=[LONG], outputs=pb.Outputs(attention=pb.AttentionOutput(layers=[0]))
    )
    frames = stub.EncodeStream(iter([pb.EncodeStreamRequest(id="1", encode=large)]), timeout=60)
    next(frames)
    waiting = [stub.Encode.future(pb.EncodeRequest(inputs=[LONG]), timeout=60) for _ in range(4)]
    print(f"{len(waiting)} calls, and a stream", flush=True)
    signal.pause()


if __name__ == "__main__":
    main()

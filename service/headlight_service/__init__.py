"""The service around the runtime: configuration, admission, batching, gRPC, metrics."""

from headlight.extras import require

require(
    "headlight serve",
    "serve",
    "onnxruntime",
    "tokenizers",
    "grpc_health",
    "grpc_reflection",
    "google.rpc",
    "prometheus_client",
    "uvicorn",
    "httptools",
    "orjson",
)

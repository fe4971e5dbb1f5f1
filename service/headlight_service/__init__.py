"""The process around the runtime: configuration, admission, batching, gRPC, metrics. Run in place, never installed."""

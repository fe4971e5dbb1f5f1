"""Hand-written HTTP/2, for requests that no gRPC client sends."""

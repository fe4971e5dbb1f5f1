"""HTTP/2 by hand, for requests that no gRPC client sends."""

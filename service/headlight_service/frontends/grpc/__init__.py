"""The protocol headlight.v1 over gRPC."""

"""Frontend of headlight.v1 over gRPC."""

"""Frontend of the Open Inference Protocol v2 over gRPC, on the port of headlight.v1."""

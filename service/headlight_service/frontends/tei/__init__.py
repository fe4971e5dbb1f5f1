"""Requests of text-embeddings-inference, for its gRPC and HTTP frontends: no gRPC, no HTTP here."""

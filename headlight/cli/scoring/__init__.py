"""`headlight rerank` and `headlight classify`."""

"""The engine: computes results for one batch."""

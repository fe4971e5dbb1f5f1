"""The engine: a batch in, results out."""

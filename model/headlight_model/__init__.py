"""The Transformer encoder in PyTorch: the source of truth that export and serving are measured against."""

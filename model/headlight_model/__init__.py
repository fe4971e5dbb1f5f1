"""The Transformer encoder in PyTorch.

The source of truth that export and serving are measured against.
"""

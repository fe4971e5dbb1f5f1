"""Comparison of a bundle with PyTorch and with transformers."""

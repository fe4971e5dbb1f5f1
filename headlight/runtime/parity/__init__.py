"""Distance from PyTorch, golden inputs and the start-up self-test."""

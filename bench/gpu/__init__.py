"""GPU benchmark: parity with PyTorch, speed, and speed over the wire."""

"""Fault matrix: each fault made for real or injected, and what was seen of it. `make faults`."""

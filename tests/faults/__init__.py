"""Fault matrix: faults made for real or injected, and the observed results. `make faults`."""

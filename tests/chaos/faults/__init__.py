"""Fault matrix: faults made for real or injected, and the observed results. `nox -s faults`."""

"""Headlight beside its peers, in one run: `python -m bench.serving`."""

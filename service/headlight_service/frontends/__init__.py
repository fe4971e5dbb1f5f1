"""Protocols in, protocols out; one package each."""

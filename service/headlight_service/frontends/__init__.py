"""Frontends: one package for each protocol."""

"""Bundles: manifest, files, prompts, and the checks before a graph is opened."""

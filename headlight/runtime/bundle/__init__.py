"""Bundles: manifest, files, prompts, and the checks before anything is opened."""

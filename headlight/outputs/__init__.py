"""Outputs: one module for each, and the registry that everything else loops over."""

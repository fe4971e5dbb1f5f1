"""Graphs and vectors in fewer bits, and what that costs in quality."""

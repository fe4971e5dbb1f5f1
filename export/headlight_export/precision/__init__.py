"""Graphs and vectors in fewer bits, and the loss of quality."""

"""Graphs, weights and golden inputs, written as a bundle."""

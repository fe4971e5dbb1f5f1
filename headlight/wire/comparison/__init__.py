"""Comparisons on the wire: their specs, and their answers."""

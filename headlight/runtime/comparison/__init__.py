"""Comparison of a query with passages, and evidence of what matched: NumPy alone."""

"""Positional lab.

Measures and plots what each position encoding does, with the `model/` code that is served.
"""

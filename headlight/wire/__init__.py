"""Conversion between messages and values, and the checks of answers."""

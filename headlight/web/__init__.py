"""Attention as a web page."""

"""Vectors of spans: the spans' tokens, windows of long texts, and means."""

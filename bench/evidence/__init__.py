"""Evaluation of evidence and of span vectors: what they find, and what they cost."""

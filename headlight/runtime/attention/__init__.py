"""Attention and hidden states: their specification, size and reduction."""

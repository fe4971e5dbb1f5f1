"""Attention and hidden states: what can be asked for, its size, its reduction."""

"""Attention: its choice, its tokens, its graph outputs and their reduction."""

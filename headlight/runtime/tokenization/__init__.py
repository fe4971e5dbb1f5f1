"""Tokenization: from text to token ids and offsets."""

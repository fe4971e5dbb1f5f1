"""Tokenizers of imported folders, each converted to one tokenizer.json."""

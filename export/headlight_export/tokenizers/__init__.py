"""Tokenizers of imported folders, each as one tokenizer.json."""

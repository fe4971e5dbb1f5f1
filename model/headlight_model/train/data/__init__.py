"""Training data: corpus, functions, sentences, tokenizer."""

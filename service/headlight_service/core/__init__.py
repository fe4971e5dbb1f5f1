"""Serving without a protocol: a request on its way through tokenizer, queue and engine."""

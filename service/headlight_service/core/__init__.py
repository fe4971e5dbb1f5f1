"""Request pipeline of the service, without a protocol: tokenizer, queue and engine."""

"""From a PyTorch checkpoint to a bundle: graphs, weights, tokenizer, manifest, and the proof that they agree with PyTorch."""

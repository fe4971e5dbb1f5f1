"""Attention, feed-forward network, norms and pooling of the encoder."""

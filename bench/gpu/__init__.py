"""On a GPU: are the numbers PyTorch's, how fast are they, and what is left of that over the wire."""

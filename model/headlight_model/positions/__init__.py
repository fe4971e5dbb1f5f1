"""Position encodings: sinusoidal, learned, RoPE, ALiBi, relative biases."""

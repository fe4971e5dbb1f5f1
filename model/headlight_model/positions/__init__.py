"""Position encodings: sinusoidal, learned, RoPE, ALiBi."""

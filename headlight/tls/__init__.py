"""TLS files: certificates, keys, tokens, and their reload."""

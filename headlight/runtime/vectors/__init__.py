"""Pooled and token vectors in the requested form."""

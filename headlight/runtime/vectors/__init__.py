"""Pooled and token vectors in the form that was asked for."""

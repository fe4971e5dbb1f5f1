"""Admission: limits on bytes and tokens, request budgets, rate limits, wait-time estimates."""

"""Admission control: permits, rate limits, wait-time estimates."""

"""Requests that hide tokens: occlusion, and comparison with evidence."""

"""Authentication, bearer tokens and certificates."""

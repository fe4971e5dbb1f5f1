"""The command `headlight compare`."""

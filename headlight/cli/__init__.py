"""The command `headlight`."""

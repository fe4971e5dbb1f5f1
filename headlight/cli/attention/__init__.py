"""The commands `headlight attend` and `headlight heads`."""

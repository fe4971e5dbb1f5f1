"""The command `headlight embed`: long lists, checkpoints, output files."""

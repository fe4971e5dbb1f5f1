"""The command `headlight doctor`: what is installed, and what this machine can run."""

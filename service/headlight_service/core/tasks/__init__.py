"""Tasks: what a kind of request tokenises, how large its answer is, and its plan."""

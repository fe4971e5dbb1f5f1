"""Real weights: all-MiniLM-L6-v2, from the package index, against sentence-transformers."""

"""Side-by-side benchmarks; each file is one, run as python -m bench.NAME."""

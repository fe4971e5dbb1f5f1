"""Frame of all benchmarks: contestants that start, are asked and stop; rounds; reports."""

"""Plans: generators of items and results, driven by the runtime and by the service alike."""

"""The process: assembly, ports, health, liveness, drain."""

"""Soak test of the service: half an hour of mixed load and faults.

`make soak`, or `python -m tests.soak --minutes 1`.
"""

"""Soak test of the service: half an hour of mixed load and faults.

`nox -s soak`, or `python -m tests.soak --minutes 1`.
"""

"""Faults, hostile traffic and soak of the service, and the pages of their results.

`nox -s faults` and `nox -s soak`, or `python -m tests.chaos --only F5`.
"""

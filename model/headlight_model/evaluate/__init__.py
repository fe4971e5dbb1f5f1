"""What the shipped models can do, beside simpler means.

Measured on modules that took no part in their training.
"""

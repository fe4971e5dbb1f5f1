"""Evaluation of the shipped models beside simpler methods.

Measured on modules that took no part in their training.
"""

"""Training of the shipped models on the Python standard library.

`python -m headlight_model.train --help`.
"""

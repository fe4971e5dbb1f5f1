"""Training of the shipped models on the Python standard library and the pinned packages.

`python -m headlight_model.train --help`.
"""

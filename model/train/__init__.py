"""Training of the shipped models on the Python standard library. `python -m model.train --help`."""

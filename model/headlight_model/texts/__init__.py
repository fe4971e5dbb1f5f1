"""Texts of the running Python's own library: for training, and to calibrate and judge exports."""

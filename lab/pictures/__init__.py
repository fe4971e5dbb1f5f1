"""Plots of the lab.

PNG files at the width of a README, in colours for all kinds of colour vision.
"""

"""The lab's pictures.

PNG files to be read at the width of a README, by readers of any colour vision.
"""

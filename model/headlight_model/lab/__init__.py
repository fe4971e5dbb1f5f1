"""The positional lab.

What each encoding of positions does, measured and drawn with the `model/` code that is served.
"""

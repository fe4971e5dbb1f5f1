"""Codecs between messages and values, and checks of answers."""

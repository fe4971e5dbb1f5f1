"""The documentation site: its pages, and the reference that is made from the code."""

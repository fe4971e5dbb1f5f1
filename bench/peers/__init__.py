"""Other libraries, each in a process and an environment of its own: a line of JSON in, a line of JSON out.

What is imported here is at hand in each of those environments: Python's own library, NumPy, and the peer.
"""

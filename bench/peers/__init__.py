"""Other libraries, each in its own process and environment: a line of JSON in, a line of JSON out.

Code here imports only what each of those environments has: Python's own library, NumPy, and the
peer.
"""

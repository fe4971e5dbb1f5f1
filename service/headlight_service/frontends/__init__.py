"""Frontends: one package for each protocol.

A frontend decodes a message, submits the request to the core, waits for its handle, encodes the
answer, maps errors to the protocol's, and closes the handle once the answer is sent.
"""

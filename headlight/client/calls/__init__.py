"""Requests and results of the client methods, without a transport."""

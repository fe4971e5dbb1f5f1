"""Requests of the client methods and results of their answers, without a transport."""

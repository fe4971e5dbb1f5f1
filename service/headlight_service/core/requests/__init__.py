"""Requests and answers as plain values of no protocol."""

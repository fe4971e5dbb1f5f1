"""Requests and answers as plain values, without a protocol."""

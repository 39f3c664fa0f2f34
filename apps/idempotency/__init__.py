"""Replayed answers to POST requests with the header `Idempotency-Key`."""

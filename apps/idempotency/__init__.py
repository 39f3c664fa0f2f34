"""Requests that may be sent again: the header `Idempotency-Key` of POST."""

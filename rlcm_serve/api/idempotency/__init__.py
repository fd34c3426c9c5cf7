"""Repeated requests: with an `Idempotency-Key`, a question is answered once and paid once."""

"""Sieges of a real service with keys on, on loopback: `python -m studies.serving.siege`."""

"""Labelled problems run at full budget, every reading and forced answer recorded."""

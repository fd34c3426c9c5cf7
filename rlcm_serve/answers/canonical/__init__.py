"""Canonical forms: equal answers have the same form, so no pair has to be compared."""

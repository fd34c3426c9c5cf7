"""Rehearsals of certificates on live traffic, in the database."""

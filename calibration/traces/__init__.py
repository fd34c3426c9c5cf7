"""Recorded reasoning: the table it is kept in, its checks, and what it was recorded on."""

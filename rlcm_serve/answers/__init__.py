"""Answers: read out of text, forced from unfinished reasoning, and compared."""

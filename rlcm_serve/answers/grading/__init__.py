"""Graders that need no workers: what an answer is compared by, and which answers are right."""

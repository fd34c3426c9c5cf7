"""Policies of one question: the exit rule, step by step and in bulk, and the vote over samples."""

"""Benchmarks: their problems, where the data come from, and their prompts."""

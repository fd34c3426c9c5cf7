"""Benchmarks: which questions are asked, and where they come from."""

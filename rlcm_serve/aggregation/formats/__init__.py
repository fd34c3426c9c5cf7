"""Rollouts and results as JSON lines, arrays and Parquet."""

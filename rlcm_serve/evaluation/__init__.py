"""Evaluation: a model and its confidence on benchmarks, as RLCM §4 measures them."""

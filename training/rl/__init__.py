"""Reinforcement learning with a confidence margin (RLCM), its variants and its baselines."""

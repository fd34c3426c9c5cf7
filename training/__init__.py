"""Gradients: the embedded model, its tasks, the probe, RL.

Part of rlcm-serve.
"""

"""Speculative decoding on vLLM's V2 model runner: the same rollouts, in fewer steps."""

"""The text around a model's reasoning: what forces an answer out of an unfinished rollout."""

THINK_BEGIN, THINK_END = "<think>", "</think>"
FORCED_ANSWER = "If I were to give the final answer now, the final answer would be \\boxed{"
FORCED_SUFFIX = f"\n{THINK_END}\n{FORCED_ANSWER}"
"""Appended to a reasoning prefix (RLCM App. A); part of the fingerprint of what is certified."""

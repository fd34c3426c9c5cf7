"""The text around a model's reasoning, including the suffix that forces an answer."""

THINK_BEGIN, THINK_END = "<think>", "</think>"
FORCED_ANSWER = "If I were to give the final answer now, the final answer would be \\boxed{"
FORCED_SUFFIX = f"\n{THINK_END}\n{FORCED_ANSWER}"
"""Appended to a reasoning prefix (RLCM App. A); part of a certificate's fingerprint."""

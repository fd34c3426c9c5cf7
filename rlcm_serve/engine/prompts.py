"""The text around a model's reasoning, including the suffix that forces an answer."""

FORCED_ANSWER = "If I were to give the final answer now, the final answer would be \\boxed{"
FORCED_SUFFIX = f"\n</think>\n{FORCED_ANSWER}"
"""Appended to thinking in `<think>` (RLCM App. A); part of a certificate's fingerprint."""

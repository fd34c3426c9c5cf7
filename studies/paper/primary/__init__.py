"""The primary comparison: GRPO, RLCM and the authors' RLCM over ten seeds, designed first."""

"""Shadow runs: after an early exit, what the full budget would have answered."""

"""Everything that runs inside vLLM: the probe, the exit control, and the way back for readings."""

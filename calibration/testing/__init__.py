"""Learn-then-Test: p-values, control of the family-wise error, and the policies that are tested."""

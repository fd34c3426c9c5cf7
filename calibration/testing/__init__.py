"""Learn-then-Test: p-values, family-wise error control, and the policies that are tested."""

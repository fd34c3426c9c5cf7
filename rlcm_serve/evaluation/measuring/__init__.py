"""From graded rollouts to figures with intervals."""

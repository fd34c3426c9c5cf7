"""The figures of tokens: from the distributions of a batch, counted for each rollout."""

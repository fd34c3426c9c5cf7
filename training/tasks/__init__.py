"""The embedded reasoner's task families: problems, and reasoning text to learn from."""

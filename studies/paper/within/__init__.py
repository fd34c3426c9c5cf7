"""Ideas for confidence within a question: a pilot, then one of them confirmed on new seeds."""

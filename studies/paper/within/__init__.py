"""Ideas for confidence within a question: a pilot, and the best one on seeds of its own."""

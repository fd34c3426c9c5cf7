"""Ideas for confidence within a question, on the pilot's seeds."""

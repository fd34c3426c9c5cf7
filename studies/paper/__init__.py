"""What the paper compares: every method from one warm start, measured alike."""

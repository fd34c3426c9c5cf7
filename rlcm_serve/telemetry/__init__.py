"""What the service says of itself: metrics, logs and traces."""

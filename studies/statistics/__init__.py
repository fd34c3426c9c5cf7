"""Power, error control and speed of certification."""

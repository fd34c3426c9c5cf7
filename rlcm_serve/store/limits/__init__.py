"""What keys may still spend per minute, for all processes that share the database."""

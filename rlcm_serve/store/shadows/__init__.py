"""Shadow runs of answers in the database."""

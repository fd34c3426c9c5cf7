"""A file of questions, answered without a server."""

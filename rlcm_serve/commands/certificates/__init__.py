"""The commands around certificates. None starts an engine."""

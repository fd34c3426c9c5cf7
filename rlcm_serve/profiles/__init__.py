"""Prompt profiles: how a model is asked, as a small file says it."""

"""The exit rule, step by step and vectorised, and the vote over several samples."""

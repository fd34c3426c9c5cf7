"""The commands behind the figures in docs/, and their results. Not part of the wheel."""

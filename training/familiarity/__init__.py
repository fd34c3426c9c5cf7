"""The familiarity reading: fitted on the prompts of labelled problems."""

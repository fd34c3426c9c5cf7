"""The paper's comparisons: every method starts from one model and is measured the same way."""

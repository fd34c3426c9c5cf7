"""Everything that only a GPU can tell, in one command (`make gpu-report`)."""

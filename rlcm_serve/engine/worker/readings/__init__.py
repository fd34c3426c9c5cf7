"""Returns readings from vLLM's worker to the service, through a file in shared memory."""

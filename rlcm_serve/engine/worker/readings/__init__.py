"""Returns readings from vLLM's workers to the service: shared memory, or fetched through vLLM."""

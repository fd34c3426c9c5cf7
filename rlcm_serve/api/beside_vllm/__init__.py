"""Our routes inside `vllm serve`, over the engine that it starts."""

"""vLLM's V2 model runner on a CPU: what `make test-v2` needs beside Triton and its interpreter."""

"""The engine's own tests on other versions of vLLM (make test-versions)."""

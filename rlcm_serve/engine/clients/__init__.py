"""The client of vLLM: launched here, or adopted from a vLLM that somebody else started."""

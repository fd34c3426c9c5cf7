"""Wire types of `/v1/chat/completions`."""

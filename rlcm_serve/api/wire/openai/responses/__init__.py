"""Wire types of `/v1/responses`."""

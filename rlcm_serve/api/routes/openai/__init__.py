"""Routes of `/v1`: the part of OpenAI's API that this service supports."""

"""Wire types of the part of OpenAI's API that this service supports."""

"""Wire types of OpenAI's chat interface."""

"""Wire types of live monitoring: labels that come in, and the figures that go out."""

"""What the routes of live monitoring do: labels that come in, figures that go out."""

"""The tables as a whole: their version, and how older ones are brought up to date."""

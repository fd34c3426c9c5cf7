"""Mathematical expressions: their parser, exact arithmetic, and values that identify them."""

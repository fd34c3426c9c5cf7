"""The page of the paper's tables and figures, drawn from the results of its runs."""

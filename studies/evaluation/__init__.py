"""Speed of evaluation and aggregation, and what the graders get wrong."""

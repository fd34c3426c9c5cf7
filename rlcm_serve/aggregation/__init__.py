"""Votes over rollouts from any source: many rows in, one answer per problem out.

rules.py      which answer wins              answer_counts.py   rows -> answers with their counts
rollouts.py   rows                           classes.py         counts -> classes of equal answers
formats/      JSON lines, arrays, Parquet    votes.py           classes -> a result per problem
runs.py       grouped rows                   results.py         results and their summary
spill.py      rows sorted on disk            aggregation.py, files.py   all steps together
"""

from rlcm_serve.aggregation.aggregation import Aggregation
from rlcm_serve.aggregation.files import aggregate_file
from rlcm_serve.aggregation.rollouts import rollouts_of
from rlcm_serve.aggregation.rules import Rule, VoteOptions

__all__ = ["Aggregation", "Rule", "VoteOptions", "aggregate_file", "rollouts_of"]

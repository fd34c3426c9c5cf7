"""Votes over rollouts that were produced anywhere: many rows in, one answer for each problem out.

rules.py      which answer wins              ballots.py   rows -> what was said, how often
rollouts.py   rows                           classes.py   ballots -> classes of equal answers
decoding.py, parquet.py, explaining.py       votes.py     classes -> a result for each problem
runs.py       grouped rows                   results.py   results and their summary
spill.py      rows in any order, on disk     aggregation.py, files.py   the whole
"""

from rlcm_serve.aggregation.aggregation import Aggregation
from rlcm_serve.aggregation.files import aggregate_file
from rlcm_serve.aggregation.rollouts import rollouts_of
from rlcm_serve.aggregation.rules import Rule, VoteOptions

__all__ = ["Aggregation", "Rule", "VoteOptions", "aggregate_file", "rollouts_of"]

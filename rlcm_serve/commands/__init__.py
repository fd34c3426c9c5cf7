"""The service's own commands. Heavy imports are made inside, so that `rlcm --help` is quick."""

from rlcm_serve.commands.aggregation import aggregate
from rlcm_serve.commands.calling.feedback import audit, feedback
from rlcm_serve.commands.calling.recalibrate import recalibrate
from rlcm_serve.commands.calling.rehearsal import activate, rehearsal
from rlcm_serve.commands.doctor import doctor
from rlcm_serve.commands.evaluation import compare, evaluate
from rlcm_serve.commands.evidence import evidence
from rlcm_serve.commands.keys import keys
from rlcm_serve.commands.questions import solve
from rlcm_serve.commands.ray import ray
from rlcm_serve.commands.recordings import add_familiarity, collect, regrade, reread
from rlcm_serve.commands.service import config, serve, vllm_args
from rlcm_serve.commands.store import store

__all__ = [
    "activate",
    "add_familiarity",
    "aggregate",
    "audit",
    "collect",
    "compare",
    "config",
    "doctor",
    "evaluate",
    "evidence",
    "feedback",
    "keys",
    "ray",
    "recalibrate",
    "regrade",
    "rehearsal",
    "reread",
    "serve",
    "solve",
    "store",
    "vllm_args",
]

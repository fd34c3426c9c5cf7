"""Answers to hard questions at a risk the caller chooses; the public Python API is listed here.

    from rlcm_serve import EngineSettings, Question, Service, VllmEngine
    from rlcm_serve import find_certificates, resolve_model

    settings = EngineSettings(model="embedded")
    service = Service(VllmEngine(settings), find_certificates(resolve_model(settings.model)))
    await service.start()
    solution = await service.solver.solve(Question("A dial shows 3. A up 5. ...", alpha=0.1))
    service.stop()

Names are loaded when they are first used: some of them import torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    __version__: str
    from rlcm_serve.answers.grader import AnswerGrader
    from rlcm_serve.core import (
        Budget,
        Guarantee,
        Question,
        Reading,
        Rollout,
        Sample,
        Sampling,
        Solution,
        VoteRule,
    )
    from rlcm_serve.engine.contract import EngineIdentity, ReasoningEngine
    from rlcm_serve.engine.launch import EngineSettings
    from rlcm_serve.engine.model_files import resolve_model
    from rlcm_serve.engine.vllm_engine import VllmEngine
    from rlcm_serve.errors import (
        CertificateMismatch,
        EngineDead,
        Infeasible,
        ModelRefused,
        NotReady,
        ProfileRefused,
        RequestRefused,
        RlcmError,
    )
    from rlcm_serve.profiles.profile import Profile
    from rlcm_serve.profiles.profile_file import load_profile
    from rlcm_serve.solving.guarantees import Guarantees, find_certificates
    from rlcm_serve.solving.service import Service
    from rlcm_serve.solving.solver import Solver

_HOMES = {
    "answers.grader": ("AnswerGrader",),
    "core": (
        "Budget",
        "Reading",
        "Guarantee",
        "Question",
        "Sample",
        "Sampling",
        "Solution",
        "Rollout",
        "VoteRule",
    ),
    "engine.contract": ("EngineIdentity", "ReasoningEngine"),
    "engine.launch": ("EngineSettings",),
    "engine.model_files": ("resolve_model",),
    "engine.vllm_engine": ("VllmEngine",),
    "errors": (
        "CertificateMismatch",
        "EngineDead",
        "Infeasible",
        "ModelRefused",
        "NotReady",
        "ProfileRefused",
        "RequestRefused",
        "RlcmError",
    ),
    "profiles.profile": ("Profile",),
    "profiles.profile_file": ("load_profile",),
    "solving.guarantees": ("Guarantees", "find_certificates"),
    "solving.service": ("Service",),
    "solving.solver": ("Solver",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AnswerGrader",
    "Budget",
    "CertificateMismatch",
    "EngineDead",
    "EngineIdentity",
    "EngineSettings",
    "Guarantee",
    "Guarantees",
    "Infeasible",
    "ModelRefused",
    "NotReady",
    "Profile",
    "ProfileRefused",
    "Question",
    "Reading",
    "ReasoningEngine",
    "RequestRefused",
    "RlcmError",
    "Rollout",
    "Sample",
    "Sampling",
    "Service",
    "Solution",
    "Solver",
    "VllmEngine",
    "VoteRule",
    "find_certificates",
    "load_profile",
    "resolve_model",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return import_module("importlib.metadata").version("rlcm-serve")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'rlcm_serve' has no attribute {name!r}")
    return getattr(import_module(f"rlcm_serve.{_HOME_OF[name]}"), name)

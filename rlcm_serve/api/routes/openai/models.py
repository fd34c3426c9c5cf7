"""`/v1/models`: the names that requests may give as their model."""

from __future__ import annotations

from itertools import product
from typing import Annotated

from fastapi import APIRouter, Depends, Path

from rlcm_serve.api.access import require_solve
from rlcm_serve.api.bodies import JsonRoute
from rlcm_serve.api.context import Context, ContextOfApp
from rlcm_serve.api.routes.openai.documents import documented
from rlcm_serve.api.wire.openai.models import ModelCard, ModelList
from rlcm_serve.errors import ModelNotFound
from rlcm_serve.profiles.profile import DEFAULT_NAME

router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=JsonRoute)
ModelName = Annotated[
    str,
    Path(
        description="Id of the model, as given to `rlcm serve --model`.",
        examples=["embedded"],
    ),
]
_ERRORS = documented(400, 401, 403, 404, 421, 500, 503)


@router.get("/models", responses=_ERRORS, dependencies=[Depends(require_solve)])
async def list_models(context: ContextOfApp) -> ModelList:
    """Lists the model that is served: alone, and with each of its prompt profiles."""
    return ModelList(data=[ModelCard(id=name) for name in _models(context)])


@router.get("/models/{model:path}", responses=_ERRORS, dependencies=[Depends(require_solve)])
async def retrieve_model(model: ModelName, context: ContextOfApp) -> ModelCard:
    """Describes the model that is served."""
    profile_of(context, model)
    return ModelCard(id=model)


def profile_of(context: Context, asked: str) -> str | None:
    """The profile that a model's name ends in; None for the name alone.

    Raises:
        ModelNotFound: the request names another model or profile.
        NotReady, EngineDead: no model is being served.
    """
    models = _models(context)
    if asked not in models:
        raise ModelNotFound(asked, list(models))
    return models[asked]


def _models(context: Context) -> dict[str, str | None]:
    """The names that a request may give as its model, each with the profile that it stands for.

    Raises:
        NotReady, EngineDead: no model is being served.
    """
    names, identities = context.model_names, context.service.solver.guarantees.identities
    profiles = [one.profile.name for one in identities if one.profile.name != DEFAULT_NAME]
    plain = dict.fromkeys(names)
    return plain | {
        under: profile
        for name, profile in product(names, profiles)
        if (under := f"{name}:{profile}") not in plain
    }

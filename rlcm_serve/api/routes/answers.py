"""`/answers`: what was recorded of an answer."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response

from calibration.canonical import canonical_json
from rlcm_serve.api.access import MaySolve, keyed, require_solve
from rlcm_serve.api.context import ContextOfApp
from rlcm_serve.api.wire.answers import AnswerRecord
from rlcm_serve.errors import NotFound
from rlcm_serve.evidence.lookup import find

router = APIRouter(tags=["questions"])
AnswerId = Annotated[
    str,
    Path(
        alias="id",
        description="Id of the answer.",
        examples=["chatcmpl-019aae2fb9c09f86d081884c7d659a2f"],
    ),
]


@router.get("/answers/{id}", response_model=AnswerRecord, **keyed(require_solve, 404))
async def read_answer(id_: AnswerId, context: ContextOfApp, caller: MaySolve) -> Response:
    """Returns the record of an answer, to the key that asked and to `admin` keys."""
    if context.evidence is None:
        raise NotFound("this service keeps no records of answers: see the setting evidence")
    longest = context.settings.timeout_s
    record = await asyncio.to_thread(find, context.evidence.folder, id_, longest)
    if record is None or not caller.sees(record["key"]):
        raise NotFound(f"there is no record of an answer {id_[:80]!r} that this key may see")
    return Response(canonical_json(record), media_type="application/json")

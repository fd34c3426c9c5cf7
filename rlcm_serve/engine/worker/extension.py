"""What the front end may ask of vLLM's workers, through vLLM's `collective_rpc`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlcm_serve.engine.worker.facts import WorkerFacts
from rlcm_serve.engine.worker.readings.parcels import Parcel, Wanted, pack
from rlcm_serve.engine.worker.readings.table import TableAddress, rows_of

EXTENSION = "rlcm_serve.engine.worker.extension.WorkerExtension"
"""For vLLM's `worker_extension_cls`."""
SEES_TABLE = "rlcm_sees_table"
FETCH_READINGS = "rlcm_fetch_readings"


class WorkerExtension(WorkerFacts):
    """Methods that vLLM adds to its worker."""

    def rlcm_sees_table(self, address: Mapping[str, Any], mark: int) -> bool:
        """Whether the table's file is the one that the front end has marked, and maps it."""
        try:
            return bool(rows_of(TableAddress(**address))[0]["ticket"] == mark)
        except OSError:
            return False

    def rlcm_fetch_readings(
        self,
        address: Mapping[str, Any],
        wanted: Sequence[Sequence[Any]],
        released: Sequence[Sequence[int]],
    ) -> list[Parcel | None]:
        """What the front end lacks of some slots of this worker's own table.

        Args:
            address: of the table.
            wanted: the slots, as `Wanted`; None is returned for those of other workers.
            released: slots and tickets of requests that have ended.
        """
        rows = rows_of(TableAddress(**address))
        for slot, ticket in released:
            if rows[slot]["ticket"] == ticket:
                rows[slot]["ticket"] = 0
        return [pack(rows[slot], Wanted(slot, *rest)) for slot, *rest in wanted]

"""A service that runs calibration jobs until none is left: DATABASE_URL DIARY LIMIT."""

import asyncio
import sys
from pathlib import Path

from rlcm_serve.jobs import CalibrationJobs
from rlcm_serve.solving.service import Service
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from tests.rlcm_serve.jobs.problem_engine import ProblemEngine


async def main(url: str, diary: Path, limit: float) -> None:
    database = Database(url)
    store = CertificateStore(database)
    service = Service(ProblemEngine(diary=diary, limit=limit), load=store.load)
    await service.start()
    jobs = CalibrationJobs(database, service, store, concurrency=4, lease=2.0)
    async with jobs.running():
        for job in jobs.store.all():
            async for _ in jobs.watch(job.id):
                pass
    service.stop()
    database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3])))

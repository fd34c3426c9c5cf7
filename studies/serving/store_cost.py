"""The CPU time that a question costs in the store: key check, limits per minute, first asks.

    python -m studies.serving.store_cost [--database URL] [--smoke]

No engine runs. Each question does what a question does with the store, and waits in between, 64 at
a time. The CPU time is that of this process, all threads, less what the same loop takes without a
store; what PostgreSQL's server takes is not in it.
"""

from __future__ import annotations

import asyncio
import secrets
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from rlcm_serve.admission import RateLimits, Rates
from rlcm_serve.store.caller import Scope
from rlcm_serve.store.certificates import CertificateStore
from rlcm_serve.store.database import Database
from rlcm_serve.store.keys import Keys
from rlcm_serve.store.limits.stored import StoredBudgets
from rlcm_serve.store.running.leases import Leases
from rlcm_serve.store.unanswered.stored import StoredUnanswered
from studies.smoke import study_parser

AT_A_TIME = 64
THINKING = 0.5
"""Seconds of a question, so that about 128 begin in a second."""
TOKENS = 900.0
CASES = {
    "no limits": (1, Rates()),
    "one key, 60,000 requests and 100 million tokens per minute": (1, Rates(60_000, 1e8)),
    "100 keys, 600 requests and a million tokens per minute each": (100, Rates(600, 1e6)),
    "100 keys, 90 requests and 100,000 tokens per minute each": (100, Rates(90, 1e5)),
}

Step = Callable[[int], Awaitable[None]]


@dataclass(frozen=True)
class Store:
    """What questions use of a database, with keys that exist."""

    keys: Keys
    limits: RateLimits
    unanswered: StoredUnanswered
    texts: list[str]
    rates: Rates

    async def begin(self, number: int) -> None:
        """What a question does before it starts."""
        caller = await self.keys.caller_of(self.texts[number % len(self.texts)])
        if self.rates != Rates():
            await self.limits.enter(str(caller.key_id), self.rates)
        await self.unanswered.find(caller.key_id, secrets.token_bytes(32))
        self.limits.spend(caller.key_id, TOKENS)

    async def end(self, number: int) -> None:
        """What it does at its end: its tokens are set right."""
        key_id = self.texts[number % len(self.texts)].split("_")[1]
        self.limits.spend(key_id, TOKENS / 2 if number % 2 else -TOKENS / 2)


async def nothing(number: int) -> None:
    """No store."""


async def cpu_of(begin: Step, end: Step, questions: int) -> float:
    """CPU seconds of the whole process for so many questions, 64 at a time."""
    numbers = iter(range(questions))

    async def ask_in_turn() -> None:
        for number in numbers:
            await begin(number)
            await asyncio.sleep(THINKING)
            await end(number)

    before = time.process_time()
    await asyncio.gather(*(ask_in_turn() for _ in range(AT_A_TIME)))
    return time.process_time() - before


async def measure(url: str, questions: int) -> None:
    """Prints a row for each case, then what a process does whatever is asked."""
    database = Database(url)
    write = sys.stdout.write
    await cpu_of(nothing, nothing, AT_A_TIME)
    loop = await cpu_of(nothing, nothing, questions)
    write("| case | CPU per question, ms |\n|---|---|\n")
    for name, (count, rates) in CASES.items():
        keys = Keys(database)
        texts = [keys.create(f"key {number}", [Scope.SOLVE])[0] for number in range(count)]
        limits = RateLimits(StoredBudgets(database))
        unanswered = StoredUnanswered(database, 3600)
        store = Store(keys, limits, unanswered, texts, rates)
        for number in range(count):
            await store.begin(number)  # compiles the statements, and makes the rows
        spent = await cpu_of(store.begin, store.end, questions) - loop
        await limits.close()
        await keys.close()
        write(f"| {name} | {1000 * spent / questions:.2f} |\n")
    certificates, leases = CertificateStore(database), Leases(database)
    for called, work in (("follow certificates", certificates.decided), ("find jobs", leases.free)):
        await database.threads.check(work)
        before = time.process_time()
        for _ in range(100):
            await database.threads.check(work)
        write(f"{called}: {10 * (time.process_time() - before):.2f} ms of CPU each time\n")
    database.close()


def main() -> None:
    """Measures SQLite, or the database at the given URL."""
    parser = study_parser(__doc__)
    parser.add_argument("--database", help="an empty database; by default a new SQLite file")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        url = options.database or f"sqlite:///{folder}/rlcm.db"
        asyncio.run(measure(url, 2 * AT_A_TIME if options.smoke else 40 * AT_A_TIME))


if __name__ == "__main__":
    main()

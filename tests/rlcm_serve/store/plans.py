"""How SQLite carries out the queries of an action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqlalchemy import event

from rlcm_serve.store.database import Database


def plans_of(database: Database, act: Callable[[], object], table: str) -> list[list[str]]:
    """The steps of every query of `act` that names a table, by EXPLAIN QUERY PLAN."""
    asked: list[tuple[str, Any]] = []

    def note(_: Any, __: Any, statement: str, values: Any, *___: Any) -> None:
        asked.append((statement, values))

    with database.reading() as session:
        engine = session.connection().engine
    event.listen(engine, "before_cursor_execute", note)
    act()
    event.remove(engine, "before_cursor_execute", note)
    queries = [one for one in asked if one[0].startswith("SELECT") and table in one[0]]
    with database.reading() as session:
        explain = session.connection().exec_driver_sql
        return [[row[-1] for row in explain(f"EXPLAIN QUERY PLAN {q}", v)] for q, v in queries]

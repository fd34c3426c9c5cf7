"""Brings the tables of older releases up to date, by adding to them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sqlalchemy import Column, Connection, Index, Table, inspect, text
from sqlalchemy.schema import CreateColumn

from rlcm_serve.store.answers.table import AnswerRow, LabelCountsRow
from rlcm_serve.store.base import Base
from rlcm_serve.store.schema.fill import count_labels, count_shadow_runs
from rlcm_serve.store.shadows.table import ShadowCountsRow, ShadowRow


def is_up_to_date(connection: Connection) -> bool:
    """Whether no table, column or index is missing."""
    if set(Base.metadata.tables) - _tables(connection):
        return False
    return not [*_missing_columns(connection)] and not [*_odd_indexes(connection)]


def bring_up_to_date(connection: Connection) -> None:
    """Adds the tables, columns and indexes that are missing, in the current transaction.

    Call it only if there are no `obstacles`.
    """
    before = _tables(connection)
    Base.metadata.create_all(connection)
    for column in [*_missing_columns(connection)]:
        said = CreateColumn(column).compile(dialect=connection.dialect)
        connection.execute(text(f"ALTER TABLE {column.table.name} ADD COLUMN {said}"))
    for index in [*_odd_indexes(connection)]:
        index.drop(connection, checkfirst=True)
        index.create(connection)
    if AnswerRow.__tablename__ in before and LabelCountsRow.__tablename__ not in before:
        count_labels(connection)
    if ShadowRow.__tablename__ in before and ShadowCountsRow.__tablename__ not in before:
        count_shadow_runs(connection)


def obstacles(connection: Connection) -> list[str]:
    """Why the tables cannot be brought up to date; one clause for each table.

    Development versions between two releases made such tables.
    """
    found = []
    for table, columns in _stored(connection):
        lacking = [
            column.name
            for column in table.columns
            if column.name not in columns and not _can_be_added(column)
        ]
        unknown = [
            name
            for name, column in columns.items()
            if name not in table.columns and not column["nullable"] and column["default"] is None
        ]
        if lacking:
            found.append(f"{table.name} lacks {', '.join(lacking)}")
        if unknown:
            found.append(f"{table.name} asks for {', '.join(unknown)}")
    return found


def _can_be_added(column: Column[Any]) -> bool:
    return bool(column.nullable) or column.server_default is not None


def _tables(connection: Connection) -> set[str]:
    return {*inspect(connection).get_table_names()}


def _stored(connection: Connection) -> Iterator[tuple[Table, dict[str, Any]]]:
    """Each table that is there, with its columns by name."""
    found = inspect(connection).get_multi_columns(filter_names=[*Base.metadata.tables])
    for (_, name), columns in found.items():
        if name is not None and columns:
            yield Base.metadata.tables[name], {column["name"]: column for column in columns}


def _missing_columns(connection: Connection) -> Iterator[Column[Any]]:
    for table, columns in _stored(connection):
        yield from (column for column in table.columns if column.name not in columns)


def _odd_indexes(connection: Connection) -> Iterator[Index]:
    """Indexes that are missing, or have other columns."""
    found = inspect(connection).get_multi_indexes(filter_names=[*Base.metadata.tables])
    for (_, name), indexes in found.items():
        columns = {index["name"]: index["column_names"] for index in indexes}
        for index in Base.metadata.tables[str(name)].indexes:
            if columns.get(index.name) != [column.name for column in index.columns]:
                yield index

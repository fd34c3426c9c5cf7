"""The tables of SQLite as a script. `python -m tests.rlcm_serve.store.tables` records it."""

import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from rlcm_serve.store.database import Database

FOLDER = Path(__file__).parents[2] / "data" / "tables"
NOW = FOLDER / "now.sql"
"""The tables as they are; the other files have those of older releases."""


def script_of(file: Path) -> str:
    """The statements that create the tables and indexes of a database."""
    made = "SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY tbl_name, type DESC, name"
    with closing(sqlite3.connect(file)) as connection:
        statements = [row[0] for row in connection.execute(made)]
    lines = [line.rstrip() for one in statements for line in f"{one};".splitlines()]
    return "\n".join(lines) + "\n"


def current(folder: Path) -> str:
    """The statements of a new database, which is made in the folder."""
    Database(f"sqlite:///{folder}/now.db").close()
    return script_of(folder / "now.db")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        NOW.write_text(current(Path(scratch)))

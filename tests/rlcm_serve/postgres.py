"""A separate PostgreSQL server for the duration of the tests."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
from psycopg import sql

FOLDERS = ("/usr/lib/postgresql/15/bin", "/usr/lib/postgresql/16/bin", "/usr/lib/postgresql/17/bin")


def find_programs() -> Path | None:
    """The folder of `initdb` and `pg_ctl`."""
    for folder in (*FOLDERS, *os.environ.get("PATH", "").split(":")):
        if all((Path(folder) / name).exists() for name in ("initdb", "pg_ctl", "postgres")):
            return Path(folder)
    return None


class PostgresServer:
    """A server that listens only on a socket in its folder, so that it takes no port."""

    def __init__(self, folder: Path, user: str) -> None:
        self.folder, self.user = folder, user
        self._numbers = count()

    def url(self, database: str) -> str:
        return f"postgresql://{self.user}@/{database}?host={self.folder}"

    def new_database(self) -> str:
        """The URL of an empty database."""
        name = f"test_{next(self._numbers)}"
        self._execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def drop(self, name: str) -> None:
        """Drops a database and closes all connections to it."""
        self._execute(sql.SQL("DROP DATABASE {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, command: sql.Composed) -> None:
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(command)


@contextmanager
def running_postgres(programs: Path) -> Iterator[PostgresServer]:
    """Runs a server; if the current user is root, as another user, as the server refuses root."""
    folder = Path(tempfile.mkdtemp(prefix="rlcm-postgres-"))
    user = pwd.getpwuid(os.getuid()).pw_name
    become = {}
    if os.getuid() == 0:
        known = {one.pw_name for one in pwd.getpwall()}
        user = "postgres" if "postgres" in known else "nobody"
        become = {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
        shutil.chown(folder, user)

    def run(program: str, *arguments: str) -> None:
        command = [programs / program, "--pgdata", folder / "data", *arguments]
        subprocess.run(
            command, check=True, cwd=folder, stdout=subprocess.DEVNULL, timeout=60, **become
        )

    try:
        run("initdb", "--auth=trust", f"--username={user}", "--encoding=UTF8", "--no-sync")
        options = f"-c listen_addresses='' -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "--wait", f"--log={folder}/log", f"--options={options}", "start")
        try:
            yield PostgresServer(folder, user)
        finally:
            run("pg_ctl", "--wait", "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder)

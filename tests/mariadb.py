"""A private MariaDB for tests: own directory, socket and port; never the system's service.

    with MariaDB.start() as database:
        database.execute("CREATE DATABASE app")
        database.host, database.port, database.user, database.password

The binaries come from Debian's `mariadb-server`. A fresh data directory takes seconds to make, so one is
kept as a template per version and copied.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pymysql
import trustme

from ctrlruntime.envtest.backends.ports import free_port
from tests.private_server import (
    DatabaseServer,
    data_template,
    find_binary,
    give_away,
    running,
    unprivileged,
    write_certificates,
)

USERS = ("mysql", "nobody")
"""Whom the server runs as if the tests run as root: the first that there is."""


class MariaDB(DatabaseServer):
    """See DatabaseServer."""

    __slots__ = ()

    @classmethod
    @contextlib.contextmanager
    def start(cls, authority: trustme.CA | None = None) -> Iterator[MariaDB]:
        """Provide a server for the time of a with block, with TLS if there is an authority."""
        with running(lambda: cls._launch(authority)) as database:
            yield database

    @classmethod
    def _launch(cls, authority: trustme.CA | None) -> MariaDB:
        directory = tempfile.TemporaryDirectory(prefix="mariadb-")
        place = Path(directory.name)
        shutil.copytree(_template(), place / "data", symlinks=True)
        options: list[str] = []
        if write_certificates(place, authority):
            options = [f"--ssl-{each}={place / each}.pem" for each in ("ca", "cert", "key")]
        give_away(place, USERS)
        port = free_port()
        command = [
            *_server_command(place / "data"),
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={place / 's'}",
            f"--pid-file={place / 'pid'}",
            f"--log-error={place / 'log'}",
            "--performance-schema=OFF",
            "--innodb-flush-log-at-trx-commit=0",
            "--max-connections=60",
            *options,
        ]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return cls(port, place, process, directory)

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as an administrator and return the rows of the last one."""
        with self.session(database) as execute:
            return [execute(statement) for statement in statements][-1]

    @contextlib.contextmanager
    def session(
        self, database: str | None = None
    ) -> Iterator[Callable[[str], list[tuple[Any, ...]]]]:
        """Provide a function that runs a statement in one connection and returns its rows."""
        with (
            contextlib.closing(self._administrator(database)) as connection,
            connection.cursor() as cursor,
        ):
            yield lambda statement: [*cursor.fetchall()] if cursor.execute(statement) >= 0 else []

    def insert(self, database: str, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run `INSERT ... VALUES (%s, ...)` for many rows."""
        with (
            contextlib.closing(self._administrator(database)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.executemany(statement, rows)

    def _administrator(self, database: str | None = None) -> pymysql.Connection[Any]:
        return pymysql.connect(
            unix_socket=str(self.folder / "s"),
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
            connect_timeout=10,
            ssl_disabled=True,  # or every connection reads the machine's authorities first
        )

    def is_ready(self) -> bool:
        """See DatabaseServer."""
        path = self.folder / "s"
        with socket.socket(socket.AF_UNIX) as probe:
            listening = path.exists() and probe.connect_ex(str(path)) == 0
        return listening and bool(self.execute("SELECT 1"))

    def create_user(self) -> None:
        """See DatabaseServer."""
        self.execute(
            f"CREATE USER {self.user} IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON *.* TO {self.user} WITH GRANT OPTION",
        )


def _binary(*names: str) -> str:
    return find_binary(names, "mariadb-server", "/usr/sbin", "/usr/local/sbin")


def _server_command(data: Path) -> list[str]:
    return [
        _binary("mariadbd", "mysqld"),
        "--no-defaults",
        f"--datadir={data}",
        f"--tmpdir={data}",
        "--innodb-buffer-pool-size=16M",
        "--innodb-log-file-size=8M",
        "--innodb-use-native-aio=0",
        "--skip-log-bin",
        "--skip-name-resolve",
        *([f"--user={unprivileged(USERS).pw_name}"] if os.geteuid() == 0 else []),
    ]


def _template() -> Path:
    """An empty data directory, made once per version of the server."""
    binary = _binary("mariadbd", "mysqld")
    return data_template("mariadb", [binary, "--no-defaults", "--version"], _install)


def _install(data: Path) -> None:
    data.mkdir()
    give_away(data, USERS)
    command = [
        _binary("mariadb-install-db", "mysql_install_db"),
        "--no-defaults",
        f"--datadir={data}",
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--innodb-log-file-size=8M",
        "--innodb-use-native-aio=0",
        *([f"--user={unprivileged(USERS).pw_name}"] if os.geteuid() == 0 else []),
    ]
    subprocess.run(command, check=True, capture_output=True)

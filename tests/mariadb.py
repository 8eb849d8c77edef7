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
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pymysql

from tests.private_server import (
    data_template,
    find_binary,
    free_port,
    give_away,
    unprivileged,
)

STARTUP_SECONDS = 60.0
ATTEMPTS = 3
USERS = ("mysql", "nobody")
"""Whom the server runs as if the tests run as root: the first that there is."""


@dataclass(slots=True)
class MariaDB:
    """A running server. `user` and `password` may do everything; `stop` ends it."""

    port: int
    socket: Path
    process: subprocess.Popen[bytes]
    directory: tempfile.TemporaryDirectory[str]
    options: tuple[str, ...] = ()
    host: str = "127.0.0.1"
    user: str = "tester"
    password: str = field(default="s3cret-of-tests", repr=False)

    @classmethod
    @contextlib.contextmanager
    def start(cls, *options: str, files: dict[str, bytes] | None = None) -> Iterator[MariaDB]:
        """A server for the time of a with block.

        `files` are written next to its data, readable by it; `{dir}` in an option is their directory.
        """
        database = cls._started(options, files or {})
        try:
            yield database
        finally:
            database.stop()

    @classmethod
    def _started(cls, options: Sequence[str], files: dict[str, bytes]) -> MariaDB:
        for attempt in range(ATTEMPTS):
            database = cls._launch(options, files)
            try:
                database._await_ready()
                database._create_user()
            except (TimeoutError, ChildProcessError):
                database.stop()
                if attempt + 1 == ATTEMPTS:
                    raise
            else:
                return database
        raise AssertionError("unreachable")

    @classmethod
    def _launch(cls, options: Sequence[str], files: dict[str, bytes]) -> MariaDB:
        directory = tempfile.TemporaryDirectory(prefix="mariadb-")
        place = Path(directory.name)
        shutil.copytree(_template(), place / "data", symlinks=True)
        for name, content in files.items():
            (place / name).write_bytes(content)
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
            *(option.replace("{dir}", str(place)) for option in options),
        ]
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        return cls(port, place / "s", process, directory, tuple(options))

    def execute(self, *statements: str, database: str | None = None) -> list[tuple[Any, ...]]:
        """Run statements as an administrator and return the rows of the last one."""
        with (
            contextlib.closing(self._administrator(database)) as connection,
            connection.cursor() as cursor,
        ):
            for statement in statements:
                cursor.execute(statement)
            return list(cursor.fetchall())

    def insert(self, database: str, statement: str, rows: Sequence[Sequence[Any]]) -> None:
        """Run `INSERT ... VALUES (%s, ...)` for many rows."""
        with (
            contextlib.closing(self._administrator(database)) as connection,
            connection.cursor() as cursor,
        ):
            cursor.executemany(statement, rows)

    def stop(self) -> None:
        """End the server and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.directory.cleanup()

    def _administrator(self, database: str | None = None) -> pymysql.Connection[Any]:
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            database=database,
            autocommit=True,
            charset="utf8mb4",
            connect_timeout=10,
            ssl_disabled=True,  # or every connection reads the machine's authorities first
        )

    def _await_ready(self) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                log = self.socket.with_name("log")
                said = log.read_text()[-2000:] if log.exists() else ""
                raise ChildProcessError(f"mariadbd ended with {self.process.returncode}\n{said}")
            if _listens(self.socket):
                self.execute("SELECT 1")
                return
            time.sleep(0.05)
        raise TimeoutError("mariadbd did not become ready")

    def _create_user(self) -> None:
        who = f"'{self.user}'@'%'"
        self.execute(
            f"CREATE USER {who} IDENTIFIED BY '{self.password}'",
            f"GRANT ALL ON *.* TO {who} WITH GRANT OPTION",
        )


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as probe:
        return path.exists() and probe.connect_ex(str(path)) == 0


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

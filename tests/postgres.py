"""A private PostgreSQL for tests: own directory, socket and port; never the system's service.

    with Postgres.start() as database:
        database.execute("CREATE DATABASE app")
        database.host, database.port, database.user, database.password

The binaries come from Debian's `postgresql`. As root, which the server refuses, it runs as an
unprivileged user. A fresh data directory takes a second to make, so one is kept and copied.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.private_server import data_template, find_binary, free_port, give_away, unprivileged

STARTUP_SECONDS = 60.0
ATTEMPTS = 3
USERS = ("postgres", "nobody")
"""Whom the server runs as if the tests run as root: the first that there is."""
ADMINISTRATOR = "admin"
FOLDERS = tuple(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True))
HBA = "local all all trust\nhost all all 127.0.0.1/32 {method}\nhost replication all 127.0.0.1/32 trust\n"


@dataclass(slots=True)
class Postgres:
    """A running server. `user` and `password` may do everything; `stop` ends it."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    directory: tempfile.TemporaryDirectory[str]
    host: str = "127.0.0.1"
    user: str = "tester"
    password: str = field(default="s3cret-of-tests", repr=False)

    @classmethod
    @contextlib.contextmanager
    def start(
        cls,
        *options: str,
        method: str = "scram-sha-256",
        files: dict[str, bytes] | None = None,
        replica_of: Postgres | None = None,
    ) -> Iterator[Postgres]:
        """A server for the time of a with block.

        `method` is how users of the network authenticate. `files` are written next to its data,
        readable by it alone; `{dir}` in an option is their directory.
        """
        database = cls._started(options, method, files or {}, replica_of)
        try:
            yield database
        finally:
            database.stop()

    @classmethod
    def _started(
        cls,
        options: Sequence[str],
        method: str,
        files: dict[str, bytes],
        replica_of: Postgres | None,
    ) -> Postgres:
        for attempt in range(ATTEMPTS):
            database = cls._launch(options, method, files, replica_of)
            try:
                database._await_ready()
                if replica_of is None:
                    database.execute(
                        f"CREATE ROLE {database.user} SUPERUSER LOGIN PASSWORD '{database.password}'"
                    )
            except (TimeoutError, ChildProcessError):
                database.stop()
                if attempt + 1 == ATTEMPTS:
                    raise
            else:
                return database
        raise AssertionError("unreachable")

    @classmethod
    def _launch(
        cls,
        options: Sequence[str],
        method: str,
        files: dict[str, bytes],
        replica_of: Postgres | None,
    ) -> Postgres:
        directory = tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True)
        place = Path(directory.name)
        if replica_of is None:
            shutil.copytree(_template(), place / "data")
        else:
            replica_of.copy_to(place / "data")
        (place / "data/pg_hba.conf").write_text(HBA.format(method=method))
        for name, content in files.items():
            (place / name).write_bytes(content)
            (place / name).chmod(0o600)
        give_away(place, USERS)
        port = free_port()
        settings = [
            f"port={port}",
            "listen_addresses=127.0.0.1",
            f"unix_socket_directories={place}",
            "fsync=off",
            "full_page_writes=off",
            "shared_buffers=16MB",
            "max_connections=40",
            "jit=off",
            *(option.replace("{dir}", str(place)) for option in options),
        ]
        with (place / "log").open("wb") as log:
            process = subprocess.Popen(
                [_binary("postgres"), "-D", str(place / "data")]
                + [part for setting in settings for part in ("-c", setting)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                **_as_user(),
            )
        return cls(port, place, process, directory)

    def execute(self, *statements: str, database: str = "postgres") -> list[list[str]]:
        """Run statements as an administrator and return the rows of the last one, NULL being empty."""
        command = [_binary("psql"), "-X", "-q", "-A", "-t", "-F", "\x1f", "-v", "ON_ERROR_STOP=1"]
        command += ["-h", str(self.folder), "-p", str(self.port), "-U", ADMINISTRATOR, database]
        done = subprocess.run(
            command, input=";\n".join(statements), capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return [line.split("\x1f") for line in done.stdout.splitlines()]

    def copy_to(self, data: Path) -> None:
        """Make the data directory of a replica."""
        data.mkdir(mode=0o700)
        give_away(data.parent, USERS)
        command = [_binary("pg_basebackup"), "-D", str(data), "-R", "-X", "stream", "-c", "fast"]
        command += ["--no-sync", "-h", self.host, "-p", str(self.port), "-U", ADMINISTRATOR]
        subprocess.run(command, check=True, capture_output=True, **_as_user())

    def stop(self) -> None:
        """End the server and remove its files."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGQUIT)  # at once, its children with it
        try:
            self.process.wait(STARTUP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.directory.cleanup()

    def _await_ready(self) -> None:
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                log = (self.folder / "log").read_text()[-2000:]
                raise ChildProcessError(f"postgres ended with {self.process.returncode}\n{log}")
            if (self.folder / f".s.PGSQL.{self.port}").exists():
                with contextlib.suppress(RuntimeError):
                    self.execute("SELECT 1")
                    return
            time.sleep(0.05)
        raise TimeoutError("postgres did not become ready")


def _binary(name: str) -> str:
    return find_binary([name], "postgresql", *FOLDERS)


def _as_user() -> dict[str, Any]:
    """How a program is started that refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    user = unprivileged(USERS)
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


def _template() -> Path:
    """An empty data directory, made once per version of the server."""
    return data_template("postgres", [_binary("postgres"), "--version"], _install)


def _install(data: Path) -> None:
    data.mkdir(mode=0o700)
    give_away(data, USERS)
    command = [_binary("initdb"), "-D", str(data), "-U", ADMINISTRATOR, "--no-sync"]
    command += ["--encoding=UTF8", "--locale=C.UTF-8", "--auth=trust"]
    subprocess.run(command, check=True, capture_output=True, **_as_user())

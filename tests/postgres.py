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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

from ctrlruntime.envtest.backends.ports import free_port
from tests.private_server import (
    STARTUP_SECONDS,
    DatabaseServer,
    data_template,
    find_binary,
    give_away,
    running,
    unprivileged,
    write_certificates,
)

USERS = ("postgres", "nobody")
"""Whom the server runs as if the tests run as root: the first that there is."""
ADMINISTRATOR = "admin"
IN_CLEAR_TEXT = "in_clear_text"
"""A role whose members are asked for their password as it is."""
FOLDERS = tuple(sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")), reverse=True))
HBA = f"""local all all trust
host all +{IN_CLEAR_TEXT} 127.0.0.1/32 password
host all all 127.0.0.1/32 scram-sha-256
host replication all 127.0.0.1/32 trust
"""


@dataclass(slots=True)
class Postgres(DatabaseServer):
    """See DatabaseServer."""

    is_replica: bool = False

    @classmethod
    @contextlib.contextmanager
    def start(
        cls, authority: trustme.CA | None = None, replica_of: Postgres | None = None
    ) -> Iterator[Postgres]:
        """Provide a server for the time of a with block, with TLS if there is an authority."""
        with running(lambda: cls._launch(authority, replica_of)) as database:
            yield database

    @classmethod
    def _launch(cls, authority: trustme.CA | None, replica_of: Postgres | None) -> Postgres:
        directory = tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True)
        place = Path(directory.name)
        options: list[str] = []
        if replica_of is None:
            shutil.copytree(_template(), place / "data")
        else:
            replica_of.copy_to(place / "data")
            options = ["max_standby_streaming_delay=0"]
        (place / "data/pg_hba.conf").write_text(HBA)
        if write_certificates(place, authority):
            options += [
                "ssl=on",
                f"ssl_cert_file={place}/cert.pem",
                f"ssl_key_file={place}/key.pem",
            ]
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
            *options,
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
        return cls(port, place, process, directory, is_replica=replica_of is not None)

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
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(STARTUP_SECONDS)
        DatabaseServer.stop(self)

    def is_ready(self) -> bool:
        """See DatabaseServer."""
        if not (self.folder / f".s.PGSQL.{self.port}").exists():
            return False
        with contextlib.suppress(RuntimeError):
            return bool(self.execute("SELECT 1"))
        return False

    def create_user(self) -> None:
        """See DatabaseServer."""
        if not self.is_replica:
            self.execute(
                f"CREATE USER {self.user} SUPERUSER PASSWORD '{self.password}'",
                f"CREATE ROLE {IN_CLEAR_TEXT}",
            )


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

"""What private database servers of tests share: starting, ending, binaries, users, ports and data directories."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import trustme

STARTUP_SECONDS = 60.0
ATTEMPTS = 3


class ServerMissing(Exception):
    """A server, or a user to run it as, is not there."""


@dataclass(slots=True)
class DatabaseServer(ABC):
    """A running server. `user` and `password` may do everything; `stop` ends it."""

    port: int
    folder: Path
    process: subprocess.Popen[bytes]
    directory: tempfile.TemporaryDirectory[str]
    host: str = "127.0.0.1"
    user: str = "tester"
    password: str = field(default="s3cret-of-tests", repr=False)

    @abstractmethod
    def is_ready(self) -> bool:
        """Return whether it answers."""

    @abstractmethod
    def create_user(self) -> None:
        """Create `user`."""

    def await_ready(self) -> None:
        """Wait until it answers. Raises ChildProcessError if it ends, TimeoutError."""
        deadline = time.monotonic() + STARTUP_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                log = self.folder / "log"
                text = log.read_text()[-2000:] if log.exists() else ""
                raise ChildProcessError(f"the server ended: {self.process.returncode}\n{text}")
            if self.is_ready():
                return
            time.sleep(0.05)
        raise TimeoutError("the server did not become ready")

    def stop(self) -> None:
        """End the server and remove its files."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.directory.cleanup()


ServerT = TypeVar("ServerT", bound=DatabaseServer)


@contextlib.contextmanager
def running(launch: Callable[[], ServerT]) -> Iterator[ServerT]:
    """Provide a server for the time of a with block. It is launched again if its port was taken meanwhile."""
    for attempt in range(1, ATTEMPTS + 1):
        server = launch()
        try:
            server.await_ready()
            server.create_user()
        except (TimeoutError, ChildProcessError):
            server.stop()
            if attempt == ATTEMPTS:
                raise
        else:
            break
    try:
        yield server
    finally:
        server.stop()


def write_certificates(folder: Path, authority: trustme.CA | None) -> bool:
    """Write ca.pem, and cert.pem with its key.pem for 127.0.0.1. Return whether there is an authority."""
    if authority is None:
        return False
    issued = authority.issue_cert("127.0.0.1")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    issued.private_key_pem.write_to_path(folder / "key.pem")
    (folder / "key.pem").chmod(0o600)
    for blob in issued.cert_chain_pems:
        blob.write_to_path(folder / "cert.pem", append=True)
    return True


def find_binary(names: Sequence[str], package: str, *folders: str) -> str:
    """The path of the first of these programs, on the PATH or in a folder. Raises ServerMissing."""
    path = os.pathsep.join([os.environ.get("PATH", ""), *folders])
    for name in names:
        if found := shutil.which(name, path=path):
            return found
    raise ServerMissing(f"{names[0]} is missing: apt-get install {package}")


def unprivileged(names: Sequence[str]) -> pwd.struct_passwd:
    """The first of these users that there is. Raises ServerMissing."""
    for name in names:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise ServerMissing(f"there is no user {' or '.join(names)} to run a server as")


def give_away(place: Path, names: Sequence[str]) -> None:
    """Make an unprivileged user the owner of a directory and all in it, if this runs as root."""
    if os.geteuid() != 0:
        return
    user = unprivileged(names)
    for path in (place, *place.rglob("*")):
        os.chown(path, user.pw_uid, user.pw_gid, follow_symlinks=False)


def data_template(
    name: str, version_command: Sequence[str], install: Callable[[Path], None]
) -> Path:
    """An empty data directory, made once per version of a server by `install` and then kept."""
    version = subprocess.run(version_command, check=True, capture_output=True).stdout
    digest = hashlib.sha256(version).hexdigest()[:12]
    place = Path(tempfile.gettempdir()) / f"ctrlruntime-{name}-{os.geteuid()}-{digest}"
    place.mkdir(mode=0o755, exist_ok=True)
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (place / "ready").exists():
            shutil.rmtree(place / "data", ignore_errors=True)
            install(place / "data")
            (place / "ready").touch()
    return place / "data"

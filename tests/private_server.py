"""What private database servers of tests share: binaries, users, ports and data directories."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path


class ServerMissing(Exception):
    """A server, or a user to run it as, is not there."""


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


def free_port() -> int:
    """A port of the loopback address that nothing uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port

"""Official builds of the servers, each with its checksum.

The envtest archive has an index of releases and a tarball of each: kube-apiserver, etcd and kubectl.
kube-controller-manager comes from the download site of Kubernetes, which has every release.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import platform
import re
import shutil
import sys
import tarfile
import tempfile
import urllib.request
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import IO, Any, Final, NamedTuple

import yaml

INDEX: Final = (
    "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
)
"""Where upstream publishes it; `CTRLRUNTIME_ENVTEST_INDEX` names another."""
DOWNLOADS: Final = "https://dl.k8s.io/release"
"""Single programs of a release; `CTRLRUNTIME_ENVTEST_DOWNLOADS` names another."""
KUBE_CONTROLLER_MANAGER: Final = "kube-controller-manager"
ARCHIVED: Final = frozenset({"etcd", "kube-apiserver", "kubectl"})
"""What a tarball has."""
_TIMEOUT: Final = 20.0
_TIMEOUT_INDEX: Final = 5.0
"""Seconds. Where the network does not lead to the archive, the caller has another way to go."""
_CHUNK: Final = 1 << 20
_STABLE: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64", "arm64": "arm64", "ppc64le": "ppc64le"}


class ArchiveError(RuntimeError):
    """The archive cannot be had, or does not match its checksum."""


class _Tarball(NamedTuple):
    release: str
    url: str
    sha512: str


class Archive:
    """Downloads into `cache`, a folder for each release; processes wait for each other."""

    def __init__(self, cache: Path, environ: Mapping[str, str] = os.environ) -> None:
        self._cache = cache
        self._index = environ.get("CTRLRUNTIME_ENVTEST_INDEX") or INDEX
        self._downloads = environ.get("CTRLRUNTIME_ENVTEST_DOWNLOADS") or DOWNLOADS

    def provide(self, release: str | None = None, names: Collection[str] = ARCHIVED) -> Path:
        """Return the folder of a release (None: the newest stable one) that has the programs `names`.

        What is missing is downloaded. Raises ArchiveError.
        """
        if unknown := set(names) - ARCHIVED - {KUBE_CONTROLLER_MANAGER}:
            raise ArchiveError(f"there is no official build of {', '.join(sorted(unknown))}")
        tarball = self._look_up(release)
        folder = self._cache / tarball.release
        with _locked(self._cache / f".{tarball.release}.lock"):
            # The programs of the tarball come last: a release that is incomplete is not in the way.
            if KUBE_CONTROLLER_MANAGER in names and not (folder / KUBE_CONTROLLER_MANAGER).exists():
                self._download_program(tarball.release, KUBE_CONTROLLER_MANAGER, folder)
            if not (folder / "kube-apiserver").exists():
                self._download(tarball, folder)
        return folder

    def _look_up(self, release: str | None) -> _Tarball:
        try:
            with _open(self._index, _TIMEOUT_INDEX) as answer:
                known = yaml.safe_load(answer.read())["releases"]
        except (OSError, HTTPException, yaml.YAMLError, KeyError, TypeError) as error:
            raise ArchiveError(f"no index of envtest releases at {self._index}: {error}") from error
        wanted = release or _newest(known)
        name = f"envtest-{wanted}-{_platform()}.tar.gz"
        found = (known.get(wanted) or {}).get(name)
        if not found:
            raise ArchiveError(f"{self._index} has no {name}")
        return _Tarball(wanted, found["selfLink"], found["hash"])

    def _download_program(self, release: str, name: str, folder: Path) -> None:
        system, machine = _platform().split("-")
        url = f"{self._downloads}/{release}/bin/{system}/{machine}/{name}"
        with tempfile.TemporaryDirectory(dir=self._cache, prefix=".download-") as work:
            program = Path(work, name)
            try:
                with _open(f"{url}.sha512", _TIMEOUT_INDEX) as answer:
                    expected = answer.read(1024).decode().split()[0]
                found = _fetch(url, program)
            except (OSError, HTTPException, UnicodeDecodeError, IndexError) as error:
                raise ArchiveError(f"{url}: {error}") from error
            if found != expected:
                raise ArchiveError(
                    f"{url} has SHA-512 {found[:16]}..., not {expected[:16]}...: it was not installed"
                )
            program.chmod(0o755)
            folder.mkdir(parents=True, exist_ok=True)
            program.replace(folder / name)

    def _download(self, tarball: _Tarball, folder: Path) -> None:
        with tempfile.TemporaryDirectory(dir=self._cache, prefix=".download-") as work:
            packed, unpacked = Path(work, "archive.tar.gz"), Path(work, "programs")
            try:
                said = _fetch(tarball.url, packed)
            except (OSError, HTTPException) as error:
                raise ArchiveError(f"{tarball.url}: {error}") from error
            if said != tarball.sha512:
                raise ArchiveError(
                    f"{tarball.url} has SHA-512 {said[:16]}..., not {tarball.sha512[:16]}... as the "
                    "index records: it was not installed"
                )
            _unpack(packed, unpacked)
            folder.mkdir(parents=True, exist_ok=True)
            # kube-apiserver comes last: where it is, everything is.
            for program in sorted(
                unpacked.iterdir(), key=lambda path: path.name == "kube-apiserver"
            ):
                program.replace(folder / program.name)
        say(f"{tarball.release} is in {folder}")


def say(words: str) -> None:
    """Progress goes to standard error."""
    sys.stderr.write(f"==> {words}\n")
    sys.stderr.flush()


def _newest(known: Mapping[str, Any]) -> str:
    stable = [match for name in known if (match := _STABLE.fullmatch(name))]
    if not stable:
        raise ArchiveError("the index of envtest releases names no stable release")
    return max(stable, key=lambda match: tuple(map(int, match.groups()))).group(0)


def _platform() -> str:
    machine = platform.machine().lower()
    return f"{sys.platform}-{_MACHINES.get(machine, machine)}"


def _open(url: str, timeout: float = _TIMEOUT) -> HTTPResponse:
    """Raise OSError; the proxies of the environment are used."""
    if not url.startswith(("https://", "http://127.0.0.1", "http://localhost")):
        raise OSError(f"{url} is not https")
    answer: HTTPResponse = urllib.request.urlopen(url, timeout=timeout)  # noqa: S310 - checked above
    return answer


def _fetch(url: str, target: Path) -> str:
    """Download with progress; the SHA-512 of what came."""
    digest = hashlib.sha512()
    with _open(url) as answer, target.open("wb") as file:
        size, received, told = int(answer.headers.get("Content-Length") or 0), 0, 0
        say(f"downloading {url} ({size / 1e6:.0f} MB)")
        while chunk := answer.read(_CHUNK):
            digest.update(chunk)
            file.write(chunk)
            received += len(chunk)
            if size and received * 10 // size > told:
                told = received * 10 // size
                say(f"{told * 10} %")
    if size and received != size:
        raise OSError(f"the download ended after {received} of {size} bytes")
    return digest.hexdigest()


def _unpack(packed: Path, into: Path) -> None:
    """Programs alone, without their folders; nothing else in a tarball is believed."""
    into.mkdir()
    try:
        with tarfile.open(packed, "r:gz") as tar:
            for member in tar:
                source = tar.extractfile(member) if member.isfile() else None
                if source is not None:
                    _write_program(source, into / Path(member.name).name)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ArchiveError(f"the archive cannot be unpacked: {error}") from error


def _write_program(source: IO[bytes], target: Path) -> None:
    with target.open("wb") as file:
        shutil.copyfileobj(source, file, _CHUNK)
    target.chmod(0o755)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield

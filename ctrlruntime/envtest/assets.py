"""Where the binaries of real API servers are found on this machine.

One folder gives all of a control plane, so that its parts are of one release. Looked up are, in this
order: `KUBEBUILDER_ASSETS`, `/usr/local/kubebuilder/bin`, our cache (the newest supported release that
has everything), and the official builds, which are downloaded into the cache. A variable
`TEST_ASSET_<NAME>` replaces a single program, as in controller-runtime.

    python -m ctrlruntime.envtest.assets            # provision, and print the folder
    python -m ctrlruntime.envtest.assets v1.34.1    # this release
    python -m ctrlruntime.envtest.assets --supported
        # a release that is supported, with kube-controller-manager
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Final

from ctrlruntime.envtest.archive import KUBE_CONTROLLER_MANAGER, Archive, ArchiveError, say

KUBE_APISERVER: Final = ("etcd", "kube-apiserver")
CONTROL_PLANE: Final = (*KUBE_APISERVER, KUBE_CONTROLLER_MANAGER)
OLDEST_SUPPORTED: Final = (1, 27)
"""The oldest release of Kubernetes that is supported."""
APIEXTENSIONS: Final = "apiextensions-1.36"
"""The cache's folder of the current server of custom resources; no archive has it."""
KUBEBUILDER_DEFAULT: Final = Path("/usr/local/kubebuilder/bin")
_RELEASE: Final = re.compile(r"v(\d+)\.(\d+)\.(\d+)")
_CHECKOUT: Final = Path(__file__).parents[2] / "hack" / "envtest-assets.sh"

Download = Callable[[str | None, Collection[str]], Path]
"""Fetches programs of a release (None: the newest) and returns its folder. Raises ArchiveError."""


class AssetsMissing(RuntimeError):
    """A binary is not there. The message lists where it was looked for and the remedy."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where provisioned binaries are kept, a folder for each release."""
    if given := environ.get("CTRLRUNTIME_ENVTEST_ASSETS"):
        return Path(given)
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "ctrlruntime" / "envtest"


class Assets:
    """Finds programs. `environ` and `system` are for tests."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        *,
        system: Path = KUBEBUILDER_DEFAULT,
        download: Download | None = None,
    ) -> None:
        self._environ = environ
        self._system = system
        self._cache = cache_folder(environ)
        self._download = download or Archive(self._cache, environ).provide

    def find(
        self, names: Collection[str] = KUBE_APISERVER, release: str | None = None
    ) -> dict[str, Path]:
        """Return the programs by name, all of one release: `release` (v1.32.0), or any.

        Raises AssetsMissing.
        """
        own = {name: Path(found) for name in names if (found := self._override(name))}
        absent = [f"{name} ({path})" for name, path in own.items() if not is_program(path)]
        if absent:
            raise AssetsMissing(f"TEST_ASSET_* names what is no program: {', '.join(absent)}")
        rest = [name for name in names if name not in own]
        return own | (self._together(rest, release) if rest else {})

    def _override(self, name: str) -> str | None:
        return self._environ.get("TEST_ASSET_" + re.sub(r"[^A-Z0-9]+", "_", name.upper()))

    def _together(self, names: Collection[str], release: str | None) -> dict[str, Path]:
        looked = []
        for folder in self._folders(release):
            lacking = [name for name in names if not is_program(folder / name)]
            if not lacking:
                return {name: folder / name for name in names}
            looked.append(f"{folder} (no {', '.join(lacking)})")
            if str(folder) == self._environ.get("KUBEBUILDER_ASSETS"):
                raise AssetsMissing(f"KUBEBUILDER_ASSETS is set, but incomplete: {looked[-1]}")
        try:
            folder = self._download(release, names)
        except ArchiveError as error:
            looked.append(str(error))
        else:
            return {name: folder / name for name in names}
        wanted = f"{', '.join(names)} of {release}" if release else ", ".join(names)
        raise AssetsMissing(
            f"{wanted}: not on this machine. {_advice()} Looked in {'; '.join(looked)}"
        )

    def _folders(self, release: str | None) -> Iterator[Path]:
        if release is not None:
            yield self._cache / release
            return
        if given := self._environ.get("KUBEBUILDER_ASSETS"):
            yield Path(given)
        yield self._system
        yield from releases(self._cache)


def releases(cache: Path) -> list[Path]:
    """Return the folders of supported releases of Kubernetes, the newest first."""
    found = [folder for folder in cache.glob("v*") if release_of(folder) >= OLDEST_SUPPORTED]
    return sorted(found, key=release_of, reverse=True)


def control_planes(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Return the folders of the cache that have a whole control plane of a supported release, the newest first."""
    return [
        folder
        for folder in releases(cache_folder(environ))
        if all(is_program(folder / name) for name in CONTROL_PLANE)
    ]


def release_of(folder: Path) -> tuple[int, ...]:
    """Return the release that a folder is named by, or () where it is named otherwise."""
    match = _RELEASE.fullmatch(folder.name)
    return tuple(map(int, match.groups())) if match else ()


def is_program(path: Path) -> bool:
    """Whether it can be run."""
    return path.is_file() and os.access(path, os.X_OK)


def _advice() -> str:
    if _CHECKOUT.exists():
        return "Run `make envtest-assets`."
    return (
        "Run `python -m ctrlruntime.envtest.assets` where the network allows, or point "
        "KUBEBUILDER_ASSETS to a folder that has them."
    )


def supported(environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of a control plane of a supported release: from the cache, else downloaded.

    Raises ArchiveError.
    """
    if found := control_planes(environ):
        return found[0]
    return Archive(cache_folder(environ), environ).provide(names=CONTROL_PLANE)


def main(arguments: list[str]) -> int:
    """`python -m ctrlruntime.envtest.assets [--supported | RELEASE]`."""
    release = arguments[0] if arguments else None
    try:
        if release == "--supported":
            folder = supported()
        else:
            folder = Assets().find(release=release)["kube-apiserver"].parent
    except (AssetsMissing, ArchiveError) as error:
        say(str(error))
        return 1
    print(folder)  # noqa: T201 - it is the answer
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

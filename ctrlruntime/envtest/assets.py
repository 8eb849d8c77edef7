"""Where the binaries of real API servers are found on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

KUBE_VERSION: Final = "v1.20.2"
"""What hack/envtest-assets.sh builds from Debian 12's source package."""
APIEXTENSIONS: Final = "apiextensions-1.36"
KUBEBUILDER_DEFAULT: Final = Path("/usr/local/kubebuilder/bin")


class AssetsMissing(RuntimeError):
    """A binary is not there. The message says where it was looked for and what to do."""


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where provisioned binaries are kept, a folder for each release."""
    if given := environ.get("CTRLRUNTIME_ENVTEST_ASSETS"):
        return Path(given)
    cache = environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(cache) / "ctrlruntime" / "envtest"


def find(
    name: str,
    *,
    release: str = KUBE_VERSION,
    environ: Mapping[str, str] = os.environ,
) -> Path:
    """The executable `name`: from the variables controller-runtime knows, or from our cache.

    Raises AssetsMissing.
    """
    looked = []
    for place in _places(name, release, environ):
        if os.access(place, os.X_OK) and place.is_file():
            return place
        looked.append(str(place))
    raise AssetsMissing(
        f"{name} ({release}) is not on this machine; run `make envtest-assets`, or point "
        f"KUBEBUILDER_ASSETS to a folder that has it. Looked for {', '.join(looked)}"
    )


def _places(name: str, release: str, environ: Mapping[str, str]) -> Iterator[Path]:
    if release.startswith("v"):
        if folder := environ.get("KUBEBUILDER_ASSETS"):
            yield Path(folder) / name
        if given := environ.get("TEST_ASSET_" + name.upper().replace("-", "_")):
            yield Path(given)
        yield KUBEBUILDER_DEFAULT / name
    yield cache_folder(environ) / release / name

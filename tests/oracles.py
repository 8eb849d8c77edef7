"""Which real servers the embedded one is compared with on this machine."""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from typing import NoReturn

from ctrlruntime.envtest.archive import ArchiveError
from ctrlruntime.envtest.assets import CONTROL_PLANE, OLDEST_SUPPORTED, Assets, AssetsMissing
from ctrlruntime.envtest.backends.versions import binary_version

KUBE_APISERVER = "kube-apiserver"
APIEXTENSIONS = "apiextensions"


@cache
def kube_apiserver_release() -> tuple[int, int] | None:
    """Return the release of the kube-apiserver that tests use, or None where it is missing."""
    try:
        found = Assets(download=_no_download).find(CONTROL_PLANE)
    except AssetsMissing:
        return None
    return binary_version(found["kube-apiserver"])


def apiextensions_is_separate() -> bool:
    """Return whether custom resources have a newer oracle than kube-apiserver.

    A supported kube-apiserver contains the server of custom resources; an older one needs
    apiextensions-apiserver beside it.
    """
    release = kube_apiserver_release()
    return release is not None and release < OLDEST_SUPPORTED


def servers_of_custom_kinds() -> list[str]:
    """Return the backends that show what concerns custom resources alone."""
    return [KUBE_APISERVER] + [APIEXTENSIONS] * apiextensions_is_separate()


def _no_download(release: str | None, names: Collection[str]) -> NoReturn:
    raise ArchiveError("tests download nothing")

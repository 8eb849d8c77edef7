"""Checksums of configuration on the Pods that read it, so that a changed configuration rolls them. Pure.

The checksum of a config object is recorded on the object too: what is in effect is known from metadata
alone, and a configuration that is held back, or written only once, changes no checksum.
"""

from collections.abc import Iterable
from typing import Final

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources.desired import Desired

CONFIG_CHECKSUM: Final = "ctrlruntime.dev/config-checksum"
"""Annotation: of a config object its own checksum, of a Pod that of all that it reads."""


def content_checksum(manifest: Manifest) -> str:
    """The checksum of what a ConfigMap or Secret holds; `stringData` counts as `data`. 8 hex digits."""
    raise NotImplementedError


def checksummed(desired: Desired) -> Desired:
    """The same config object with its checksum recorded on it."""
    raise NotImplementedError


def checksum_in_effect(desired: Desired, entry: Entry | None) -> str:
    """The checksum of a config object as Pods read it once the pass is done.

    That is the one of the existing object where it is held back or written only once, else the desired one.
    """
    raise NotImplementedError


def combined(checksums: Iterable[str]) -> str:
    """One checksum of several, in the order given."""
    raise NotImplementedError


def with_checksum(pod: Manifest, checksum: str) -> Manifest:
    """The Pod, a copy, with the checksum of what it reads."""
    raise NotImplementedError

"""Checksums of configuration on the Pods that read it, so that a changed configuration rolls them. Pure.

The checksum of a config object is recorded on the object too: what is in effect is known from metadata
alone, and a configuration that is held back, or written only once, changes no checksum.
"""

import base64
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

import orjson

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.cache.entry import Entry
from ctrlruntime.resources import Desired, canonical, revision, revision_of_bytes
from ctrlruntime.resources.diff import is_builder_change

CONFIG_CHECKSUM: Final = "ctrlruntime.dev/config-checksum"
"""Annotation: of a config object its own checksum, of a Pod that of all that it reads."""


def content_checksum(manifest: Manifest) -> str:
    """Return the checksum of what a ConfigMap or Secret holds; `stringData` counts as `data`. 8 hex digits."""
    data = dict(manifest.get("data") or {})
    for name, text in (manifest.get("stringData") or {}).items():
        data[name] = base64.b64encode(text.encode()).decode()
    held = {"data": data, "binaryData": manifest.get("binaryData") or {}}
    return revision({name: content for name, content in held.items() if content})


STEADY_CHECKSUM: Final = "ctrlruntime.dev/steady-config-checksum"
"""Annotation of a config object: the checksum of the part of it whose change has to reach Pods."""


def checksummed(desired: Desired, checksum: str = "") -> Desired:
    """Return the same config object with its checksum recorded on it, as a part of it.

    `checksum` is recorded in place of that of the content, if it is given.
    """
    manifest = with_checksum(desired.manifest, checksum or content_checksum(desired.manifest))
    own = desired.revision != revision(desired.manifest)
    return replace(desired, manifest=manifest, revision=desired.revision if own else "")


def sticky_checksummed(desired: Desired, steady: str, entry: Entry | None) -> Desired:
    """Return the same config object with a checksum that changes with `steady` alone.

    `steady` is the checksum of what has to reach Pods, and `entry` the object as it exists. While the two agree,
    the recorded checksum stays whatever else changed, so no Pod is replaced for it.
    """
    known = {} if entry is None else entry.annotations
    kept = known.get(CONFIG_CHECKSUM, "") if known.get(STEADY_CHECKSUM) == steady else ""
    made = checksummed(desired, kept)
    annotations = {**made.manifest["metadata"]["annotations"], STEADY_CHECKSUM: steady}
    metadata = {**made.manifest["metadata"], "annotations": annotations}
    manifest = {**made.manifest, "metadata": metadata}
    own = made.revision != revision(made.manifest)
    return replace(made, manifest=manifest, revision=made.revision if own else "")


def checksum_in_effect(desired: Desired, entry: Entry | None) -> str:
    """Return the checksum of a config object as Pods read it once the pass is done.

    That is the one of the existing object where it is held back or written only once, else the desired one.
    """
    recorded = desired.manifest["metadata"].get("annotations") or {}
    wanted: str = recorded.get(CONFIG_CHECKSUM) or content_checksum(desired.manifest)
    if entry is None or entry.deletion_timestamp is not None:
        return wanted
    stays = desired.once or is_builder_change(desired, entry)
    return entry.annotations.get(CONFIG_CHECKSUM, wanted) if stays else wanted


def combined(checksums: Iterable[str]) -> str:
    """One checksum of several, in the order given."""
    return revision_of_bytes(canonical(list(checksums)))


def with_checksum(manifest: Manifest, checksum: str) -> Manifest:
    """Return the object, a copy, with a checksum: a Pod with that of what it reads."""
    made: Manifest = orjson.loads(orjson.dumps(manifest))
    metadata = made["metadata"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), CONFIG_CHECKSUM: checksum}
    return made

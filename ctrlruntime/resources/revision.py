"""The revision of a desired object: a short name for its content.

The revision is FNV-1a, 32 bit, over the object's canonical JSON, written as 8 hex digits and kept
in the annotation :data:`REVISION`. It is taken before tracking metadata is added and holds nothing
of the operator's own version, so that an upgrade of the operator rolls no pods.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson
from fnv_hash_fast import fnv1a_32

REVISION: Final = "ctrlruntime.dev/revision"
"""Annotation that carries the revision last applied."""


def canonical(value: object) -> bytes:
    """Return the canonical JSON of `value`: sorted keys, no spaces, UTF-8."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def revision_of_bytes(raw: bytes) -> str:
    """FNV-1a 32 of `raw` as 8 hex digits (empty: ``811c9dc5``)."""
    return f"{fnv1a_32(raw):08x}"


def revision(manifest: Mapping[str, Any]) -> str:
    """Return the revision of a desired object, before any tracking metadata is added to it."""
    return revision_of_bytes(canonical(manifest))

"""Objects as a server would send them."""

from collections.abc import Callable
from typing import Any

import orjson
import pytest

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.json import Json

CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


def manifest(name: str, namespace: str = "ns", **metadata: Json) -> dict[str, Any]:
    """Metadata in wire names; ``data`` and other top-level fields under ``top``."""
    top = metadata.pop("top", {"data": {"k": "v"}})
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        **top,
    }


@pytest.fixture
def entry_of() -> Callable[..., Entry]:
    decoder = EntryDecoder(CONFIG_MAP)

    def make(name: str, namespace: str = "ns", **metadata: object) -> Entry:
        return decoder.decode(orjson.dumps(manifest(name, namespace, **metadata)))

    return make

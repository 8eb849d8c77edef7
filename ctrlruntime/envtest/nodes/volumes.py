"""What the volumes of a Pod hold, as files: ConfigMaps, Secrets, projections of them. No I/O."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from ctrlruntime.envtest.nodes.containers import CannotStart, Sources
from ctrlruntime.envtest.nodes.kinds import Manifest

Files = dict[str, bytes]
"""Content by path within the volume."""


def volume_references(pod: Manifest) -> set[tuple[str, str]]:
    """Return the ConfigMaps and Secrets that mounted volumes name."""
    return {
        (kind, name) for volume in _mounted(pod).values() for kind, name, _source in _parts(volume)
    }


def volume_files(pod: Manifest, sources: Sources) -> dict[str, Files]:
    """Return the files of every mounted volume by its name; none for an `emptyDir` and kinds not known here.

    Raises CannotStart for what is missing and not optional, as a kubelet would not start the Pod.
    """
    return {
        name: {
            path: data
            for kind, source_name, source in _parts(volume)
            for path, data in _files(kind, source_name, source, sources).items()
        }
        for name, volume in _mounted(pod).items()
    }


def mounts(container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Mount path, and path among the volumes' folders."""
    for mount in container.get("volumeMounts", []):
        inner = mount.get("subPath", "")
        place = f"{mount['name']}/{inner}" if inner else mount["name"]
        yield mount["mountPath"].rstrip("/"), place


def _mounted(pod: Manifest) -> dict[str, Manifest]:
    spec = pod["spec"]
    used = {m["name"] for c in spec.get("containers", []) for m in c.get("volumeMounts", [])}
    return {v["name"]: v for v in spec.get("volumes", []) if v["name"] in used}


def _parts(volume: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    if "secret" in volume:
        yield "Secret", volume["secret"]["secretName"], volume["secret"]
    if "configMap" in volume:
        yield "ConfigMap", volume["configMap"]["name"], volume["configMap"]
    for source in (volume.get("projected") or {}).get("sources", []):
        if "secret" in source:
            yield "Secret", source["secret"]["name"], source["secret"]
        if "configMap" in source:
            yield "ConfigMap", source["configMap"]["name"], source["configMap"]


def _files(kind: str, name: str, source: Mapping[str, Any], sources: Sources) -> Files:
    found = sources.get((kind, name))
    optional = bool(source.get("optional"))
    if found is None:
        if optional:
            return {}
        raise CannotStart(f"{kind.lower()} {name!r} not found")
    data = _bytes(kind, found)
    items = source.get("items")
    if items is None:
        return data
    missing = [item["key"] for item in items if item["key"] not in data]
    if missing and not optional:
        raise CannotStart(f"{kind.lower()} {name!r} has no key {missing[0]!r}")
    return {item["path"]: data[item["key"]] for item in items if item["key"] in data}


def _bytes(kind: str, source: Manifest) -> Files:
    encoded = source.get("data" if kind == "Secret" else "binaryData") or {}
    files = {key: base64.b64decode(value) for key, value in encoded.items()}
    if kind == "ConfigMap":
        files |= {key: value.encode() for key, value in (source.get("data") or {}).items()}
    return files

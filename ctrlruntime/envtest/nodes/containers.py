"""What a container of a Pod would be started with: command and environment. No I/O."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ctrlruntime.envtest.nodes.kinds import Manifest
from ctrlruntime.envtest.nodes.podstatus import HOST_IP

_REFERENCE = re.compile(r"\$\$|\$\(([A-Za-z_][-A-Za-z0-9_.]*)\)")

Sources = Mapping[tuple[str, str], Manifest | None]
"""ConfigMaps and Secrets by kind and name; None for one that does not exist."""


class CannotStart(ValueError):
    """The container refers to something that is not there (CreateContainerConfigError)."""


@dataclass(frozen=True, kw_only=True)
class Command:
    """A process to run: its arguments and its environment."""

    args: tuple[str, ...]
    env: dict[str, str]


def command_of(
    pod: Manifest, container: Manifest, sources: Sources, *, address: str = ""
) -> Command:
    """Return what the container is started with; `address` is its Pod's.

    Raises CannotStart, as a kubelet would, for missing references and a missing command.
    """
    env: dict[str, str] = {}
    for source in container.get("envFrom", []):
        env.update(_all_keys(source, sources))
    for item in container.get("env", []):
        value = _value(pod, item, sources, address)
        if value is not None:
            env[item["name"]] = expand(value, env)
    words = [*container.get("command", []), *container.get("args", [])]
    if not container.get("command"):
        raise CannotStart(f"container {container['name']!r} has no command: images are not run")
    return Command(args=tuple(expand(word, env) for word in words), env=env)


def references(pod: Manifest) -> set[tuple[str, str]]:
    """Return the ConfigMaps and Secrets that the Pod's containers name."""
    found: set[tuple[str, str]] = set()
    for container in pod["spec"].get("containers", []):
        for source in container.get("envFrom", []):
            found.update(_named(source, "configMapRef", "secretRef"))
        for item in container.get("env", []):
            found.update(_named(item.get("valueFrom") or {}, "configMapKeyRef", "secretKeyRef"))
    return found


def relocated(command: Command, places: Mapping[str, str]) -> Command:
    """With every word and value that is one of these paths, or below it, led to its own place.

    Processes of one machine share its file system: where a container would see a mount, its process is
    given the folder that stands for it.
    """

    def moved(text: str) -> str:
        for path, place in places.items():
            if text == path or text.startswith(f"{path}/"):
                return place + text[len(path) :]
        return text

    return Command(
        args=tuple(map(moved, command.args)),
        env={name: moved(value) for name, value in command.env.items()},
    )


def expand(text: str, env: Mapping[str, str]) -> str:
    """`$(NAME)` by its value; `$$` is a dollar; what is unknown stays."""

    def replace(match: re.Match[str]) -> str:
        if match.group(0) == "$$":
            return "$"
        return env.get(match.group(1), match.group(0))

    return _REFERENCE.sub(replace, text)


def _named(source: Mapping[str, Any], *keys: str) -> Iterator[tuple[str, str]]:
    for key in keys:
        if key in source:
            yield ("Secret" if key.startswith("secret") else "ConfigMap", source[key]["name"])


def _all_keys(source: Mapping[str, Any], sources: Sources) -> dict[str, str]:
    prefix = source.get("prefix", "")
    for kind, name in _named(source, "configMapRef", "secretRef"):
        reference = source["secretRef" if kind == "Secret" else "configMapRef"]
        found = sources.get((kind, name))
        if found is not None:
            return {prefix + key: value for key, value in _data(kind, found).items()}
        if not reference.get("optional"):
            raise CannotStart(f"{kind.lower()} {name!r} not found")
    return {}


def _value(pod: Manifest, item: Mapping[str, Any], sources: Sources, address: str) -> str | None:
    if "valueFrom" not in item:
        return str(item.get("value", ""))
    origin = item["valueFrom"]
    if "fieldRef" in origin:
        return field(pod, origin["fieldRef"]["fieldPath"], address)
    for kind, name in _named(origin, "configMapKeyRef", "secretKeyRef"):
        reference = origin["secretKeyRef" if kind == "Secret" else "configMapKeyRef"]
        found = sources.get((kind, name))
        value = None if found is None else _data(kind, found).get(reference["key"])
        if value is None and not reference.get("optional"):
            missing = "not found" if found is None else f"has no key {reference['key']!r}"
            raise CannotStart(f"{kind.lower()} {name!r} {missing}")
        return value
    raise CannotStart(f"environment variable {item['name']!r}: source is not supported")


def _data(kind: str, source: Manifest) -> dict[str, str]:
    data: dict[str, str] = source.get("data") or {}
    if kind == "ConfigMap":
        return data
    return {key: base64.b64decode(value).decode() for key, value in data.items()}


def field(pod: Manifest, path: str, address: str) -> str:
    """Return a field of the downward API."""
    metadata = pod["metadata"]
    keyed = re.fullmatch(r"metadata\.(labels|annotations)\['([^']+)'\]", path)
    if keyed:
        return str((metadata.get(keyed.group(1)) or {}).get(keyed.group(2), ""))
    fields = {
        "metadata.name": metadata["name"],
        "metadata.namespace": metadata["namespace"],
        "metadata.uid": metadata["uid"],
        "spec.nodeName": pod["spec"].get("nodeName", ""),
        "spec.serviceAccountName": pod["spec"].get("serviceAccountName", "default"),
        "status.hostIP": HOST_IP,
        "status.podIP": address,
    }
    if path not in fields:
        raise CannotStart(f"fieldPath {path!r} is not supported")
    return str(fields[path])

"""Installing CustomResourceDefinitions, and waiting until their kinds are served."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import aclosing
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import orjson
import yaml

from ctrlruntime.api import GroupVersionKind, RESTMapping
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import AlreadyExists, NotFound

Manifest = dict[str, Any]
CRDSource = Path | str | Manifest | type[Resource[Any, Any]]

CRD = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


_generated: WeakKeyDictionary[type, bytes] = WeakKeyDictionary()
"""Definitions of kinds as JSON: suites install them for every server, and generating takes as long as installing."""


class CRDNotServed(TimeoutError):
    """A definition was accepted, its kind is not served."""


def load_documents(path: Path) -> Iterator[Manifest]:
    """All objects of a YAML file, or of the YAML files of a folder.

    Raises ValueError for a path that does not exist.
    """
    files = sorted([*path.glob("*.yaml"), *path.glob("*.yml")]) if path.is_dir() else [path]
    for file in files:
        if not file.is_file():
            raise ValueError(f"{file} is neither a file nor a folder")
        for document in yaml.load_all(file.read_text(), Loader=yaml.CSafeLoader):
            if isinstance(document, dict):
                yield document


def load_crds(sources: Iterable[CRDSource]) -> list[Manifest]:
    """Return the definitions of `sources`: kinds, manifests, YAML files, folders of YAML files.

    Raises ValueError for a path that does not exist or holds no definition.
    """
    return [crd for source in sources for crd in _load(source)]


def _load(source: CRDSource) -> Iterator[Manifest]:
    if isinstance(source, dict):
        yield source
        return
    if isinstance(source, type):
        if source not in _generated:
            _generated[source] = orjson.dumps(source.crd())
        yield orjson.loads(_generated[source])
        return
    found = [each for each in load_documents(Path(source)) if each.get("kind") == CRD.kind]
    if not found:
        raise ValueError(f"{source} holds no CustomResourceDefinition")
    yield from found


async def install_crds(
    client: Client, sources: Iterable[CRDSource], *, timeout: float = 120.0
) -> list[RESTMapping]:
    """Create or update the definitions and wait until every served version answers.

    Raises CRDNotServed, naming the conditions, when that takes longer than `timeout` seconds.
    """
    crds = load_crds(sources)
    for crd in crds:
        await _put(client, crd)
    mappings: list[RESTMapping] = []
    for crd in crds:
        mappings += await _served(client, crd, timeout)
    return mappings


async def uninstall_crds(client: Client, sources: Iterable[CRDSource]) -> None:
    """Delete the definitions and with them all their objects."""
    for crd in load_crds(sources):
        try:
            await client.delete(CRD, crd["metadata"]["name"])
        except NotFound:
            continue


async def _put(client: Client, crd: Manifest) -> None:
    manifest = {key: value for key, value in crd.items() if key != "status"}
    try:
        await client.create(manifest)
    except AlreadyExists:
        live = await client.get(CRD, crd["metadata"]["name"])
        metadata = {**manifest["metadata"], "resourceVersion": live["metadata"]["resourceVersion"]}
        await client.update({**manifest, "metadata": metadata})


async def _served(client: Client, crd: Manifest, timeout: float) -> list[RESTMapping]:
    name, spec = crd["metadata"]["name"], crd["spec"]
    mappings = [
        RESTMapping(
            GroupVersionKind(spec["group"], version["name"], spec["names"]["kind"]),
            spec["names"]["plural"],
            spec["scope"] == "Namespaced",
        )
        for version in spec["versions"]
        if version.get("served", True)
    ]
    live: Manifest = {}
    try:
        async with asyncio.timeout(timeout):
            live = await _established(client, name, live)
            for mapping in mappings:
                await _answers(client, mapping)
    except TimeoutError:
        raise CRDNotServed(
            f"{name} is not served after {timeout:g} s; its conditions: {_conditions(live)}"
        ) from None
    return mappings


async def _established(client: Client, name: str, live: Manifest) -> Manifest:
    live.update(await client.get(CRD, name))
    while not _is_established(live):
        version = live["metadata"]["resourceVersion"]
        fields = f"metadata.name={name}"
        events = client.watch(CRD, fields=fields, resource_version=version, timeout=30)
        async with aclosing(events):
            async for _, crd in events:
                live.update(crd)
                if _is_established(live):
                    break
    return live


def _is_established(crd: Manifest) -> bool:
    return any(c["type"] == "Established" and c["status"] == "True" for c in _conditions(crd))


def _conditions(crd: Manifest) -> list[Manifest]:
    """Return a server that has not processed it yet returns null."""
    return (crd.get("status") or {}).get("conditions") or []


async def _answers(client: Client, mapping: RESTMapping) -> None:
    """Return once a list is answered and discovery lists the kind.

    A real server does both a little after Established, each in its own time.
    """
    while not (await _lists(client, mapping) and await _discovered(client, mapping)):  # noqa: ASYNC110
        await asyncio.sleep(0.05)


async def _lists(client: Client, mapping: RESTMapping) -> bool:
    try:
        await client.list(mapping, limit=1)
    except NotFound:
        return False
    return True


async def _discovered(client: Client, mapping: RESTMapping) -> bool:
    resources = await _document(client, f"/apis/{mapping.gvk.api_version}", "resources")
    if mapping.plural not in [resource["name"] for resource in resources or ()]:
        return False
    groups = await _document(client, "/apis", "groups")  # a bare apiextensions-apiserver has none
    return groups is None or mapping.gvk.group in [group["name"] for group in groups]


async def is_served(client: Client, kind: GroupVersionKind) -> bool:
    """Whether discovery has the kind now."""
    root = "/apis" if kind.group else "/api"
    resources = await _document(client, f"{root}/{kind.api_version}", "resources")
    return kind.kind in [resource["kind"] for resource in resources or ()]


async def _document(client: Client, path: str, field: str) -> list[Manifest] | None:
    """Return a list of a discovery document; None where it is not there."""
    headers = {"Accept": "application/json"}
    try:
        answer = await client.transport.request("GET", path, headers=headers)
    except NotFound:
        return None
    found: list[Manifest] = orjson.loads(answer.body).get(field) or []
    return found

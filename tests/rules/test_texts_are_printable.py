"""Texts of every status, and of events, have no control characters (S-F19): a rule of what writes them, for every kind."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import cast

import pytest

from ctrlruntime.api.kinds import Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.json import Json
from tests.hostile.test_tokens_and_text import HARMLESS, HOSTILE
from tests.rules.harness import crds, mapping_of

pytestmark = pytest.mark.criterion("S-F19")
ROOT = Path(__file__).parents[2]
KINDS = [
    kind for kind, crd in crds().items() if "status" in crd["spec"]["versions"][0]["subresources"]
]
FOR_PEOPLE = re.compile("(message|reason|error)(?!At$)|^status$", re.IGNORECASE)


def hostile(schema: Manifest) -> Json:
    """Return a value of the schema whose texts for people would change a terminal."""
    properties = schema.get("properties", {})
    texts = {
        name: HOSTILE
        for name, field in properties.items()
        if field.get("type") == "string" and FOR_PEOPLE.search(name) and "enum" not in field
    }
    inside = {name: hostile(field) for name, field in properties.items()}
    found = {name: value for name, value in inside.items() if value} | texts
    if "items" in schema:
        return [each] if (each := hostile(schema["items"])) else None
    if isinstance(more := schema.get("additionalProperties"), dict):
        return {"x": each} if (each := hostile(more)) else None
    return found


class Server:
    """A client that keeps what is written, for an object without a status."""

    def __init__(self) -> None:
        self.written: list[Json] = []

    async def patch(self, _mapping: object, _name: str, patch: Manifest, **_: object) -> None:
        self.written.append(patch["status"])


@pytest.mark.parametrize("kind", KINDS)
async def test_no_status_of_any_kind_has_control_characters(kind: str) -> None:
    schema = crds()[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    status = hostile(schema["properties"]["status"])
    assert HOSTILE in json.dumps(status, ensure_ascii=False) or status["conditions"]
    server = Server()
    patcher = ObjectPatcher(cast("Client", server), "manager")
    await patcher.patch_status(mapping_of(kind), "x", status, namespace="default")
    (written,) = server.written
    text = json.dumps(written)
    assert json.dumps(HOSTILE) not in text
    assert json.dumps(HARMLESS) in text
    assert text == json.dumps(status).replace(json.dumps(HOSTILE), json.dumps(HARMLESS))


WRITES_A_STATUS = re.compile(r"\.(?:patch|update|apply)_status\(|subresource=.status")
BY_THE_PATCHER = re.compile(
    r"patcher\.(?:patch|update)_status\(|ObjectPatcher\(.*\)\.patch_status\("
)


def test_statuses_of_the_systems_are_written_by_the_patcher_alone() -> None:
    """What a person writes with the command line aside."""
    found = {
        f"{path.relative_to(ROOT)}: {line.strip()}"
        for folder in ("internal", "manager/controllers", "ctrlruntime/controller")
        for path in (ROOT / folder).rglob("*.py")
        for line in path.read_text().splitlines()
        if WRITES_A_STATUS.search(line) and not BY_THE_PATCHER.search(line)
    }
    assert found == set()

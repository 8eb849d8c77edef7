"""Manifests of the shapes in Kubernetes' documentation, right and wrong, on a real and the embedded server.

Each is created, and applied by another manager: accepted, defaulted, owned and refused alike.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
import uvloop
import yaml

from ctrlruntime.client.config import Config
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.builtin import builtin_kinds
from ctrlruntime.json import Json
from tests.backends import SharedServer
from tests.differential.masking import View, agree, view
from tests.differential.replay import Difference
from tests.differential.requests import APPLY, MERGE, Script, Step
from tests.differential.servers import Pair, Server
from tests.differential.subject import Subject

FOLDER: Final = Path(__file__).parent / "corpus"
NAMESPACE: Final = "corpus"
KINDS: Final = {
    (f"{kind.group}/{version}".lstrip("/"), kind.kind): kind
    for kind in builtin_kinds()
    for version in kind.versions
}
NOT_SERVED: Final = {
    "APIService",
    "CertificateSigningRequest",
    "FlowSchema",
    "PriorityLevelConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
}
"""What docs/envtest.md names as lacking: not found, rather than stored and without effect."""
Manifest = dict[str, Any]
_MOMENT: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def manifests(name: str) -> Iterator[Manifest]:
    text = (FOLDER / name).read_text()
    for word, length in (("@LONG@", 130), ("@LONGER@", 1025)):
        text = text.replace(word, "x" * length)
    yield from yaml.safe_load_all(text)


def subject_of(obj: Manifest) -> Subject:
    """Return the kind of a manifest."""
    kind = KINDS[obj["apiVersion"], obj["kind"]]
    return Subject(obj["apiVersion"], obj["kind"], kind.plural, {}, (), ())


def steps(obj: Manifest) -> tuple[Step, ...]:
    """Return what is sent: a create, and an apply of the same by another manager, as a dry run."""
    kind = KINDS[obj["apiVersion"], obj["kind"]]
    root = "/apis/" if kind.group else "/api/"
    place = f"namespaces/{NAMESPACE}/" if kind.namespaced else ""
    path = f"{root}{obj['apiVersion']}/{place}{kind.plural}"
    one = f"{path}/{obj['metadata']['name']}"
    return (
        Step("create", "POST", f"{path}?fieldManager=a", obj),
        Step("apply", "PATCH", f"{one}?fieldManager=b&dryRun=All", obj, APPLY),
    )


def _plain(seen: View) -> View:
    """Return the same without moments, and without null members, which mean no more than absent ones."""
    return replace(seen, content=_without_nulls(seen.content))


def _without_nulls(value: object) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return "(time)" if isinstance(value, str) and _MOMENT.fullmatch(value) else value


async def differences(pair: Pair, name: str) -> AsyncIterator[str]:
    """Send the manifests of a file to both servers; where they answer differently, line by line."""
    for server in (pair.real, pair.embedded):
        await server.send(Step("", "POST", "/api/v1/namespaces", {"metadata": {"name": NAMESPACE}}))
    for obj in manifests(name):
        if obj["kind"] in NOT_SERVED:
            continue
        subject = subject_of(obj)
        asked = steps(obj)
        for number, step in enumerate(asked):
            answers = await pair.send(step, obj["metadata"]["name"])
            real, ours = (_plain(view(subject, each)) for each in answers)
            if number == 0 and (real.code < 400) == (name == "refused.yaml"):
                yield f"{obj['kind']} {obj['metadata']['name']}: {real}"
            if not agree(subject, real, ours):
                yield str(Difference(Script(subject, asked[number : number + 1]), real, ours))
            if max(real.code, ours.code) >= 400 or subject.kind == "CustomResourceDefinition":
                break  # what is established comes later, and is no part of the answer
        one = asked[1].path.partition("?")[0]
        await pair.send(Step("", "PATCH", one, {"metadata": {"finalizers": None}}, MERGE))
        await pair.send(Step("", "DELETE", f"{one}?gracePeriodSeconds=0"))


@pytest.mark.slow
@pytest.mark.criterion("U-F2")
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.iterdir()))
def test_manifests_of_the_documentation_agree(real_server: SharedServer, name: str) -> None:
    async def both() -> list[str]:
        async with (
            APIServer(ServerOptions()) as api,
            Server(Config(host=api.url)) as embedded,
            Server(real_server.config) as upstream,
        ):
            return [each async for each in differences(Pair(upstream, embedded), name)]

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        found = runner.run(both())
    assert not found, "\n\n".join(found)

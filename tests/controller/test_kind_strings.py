"""Kinds named by a text: built-in ones at once, others as discovery has them at the start."""

from __future__ import annotations

import asyncio

import pytest

from ctrlruntime import (
    ApiModel,
    Builder,
    Client,
    Config,
    GroupVersionKind,
    Manifest,
    ObjectMeta,
    Request,
    Resource,
    as_reconciler,
    enqueue_object,
)
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.eventually import eventually
from tests.support.manager_harness import make_manager

pytestmark = pytest.mark.criterion("DX-5")

LIMIT = 60
UNREACHABLE = Config(host="http://127.0.0.1:9")


class PlanetSpec(ApiModel):
    rings: bool = False


class Planet(
    Resource[PlanetSpec], group="sky.example.com", version="v1", plural="planetae", scope="Cluster"
):
    """A kind of another team: cluster-scoped, and of an irregular plural."""


@pytest.mark.parametrize(
    ("text", "gvk"),
    [
        ("apps/v1/Deployment", ("apps", "v1", "Deployment")),
        ("Deployment.v1.apps", ("apps", "v1", "Deployment")),
        ("v1/Pod", ("", "v1", "Pod")),
        ("Pod.v1", ("", "v1", "Pod")),
        (
            "Role.v1beta1.rbac.authorization.k8s.io",
            ("rbac.authorization.k8s.io", "v1beta1", "Role"),
        ),
        ("rbac.authorization.k8s.io/v1/Role", ("rbac.authorization.k8s.io", "v1", "Role")),
    ],
)
def test_a_text_names_group_version_and_kind(text: str, gvk: tuple[str, str, str]) -> None:
    assert GroupVersionKind.from_string(text) == GroupVersionKind(*gvk)


AMBIGUOUS = [
    "Deployment",
    "Deployment.apps",
    "apps/Deployment",
    "deployments.apps",
    "apps/v1/deployment",
    "apps/v1/",
    "/v1/Pod",
    "a/b/v1/Pod",
    "",
]


@pytest.mark.parametrize("text", AMBIGUOUS)
async def test_a_text_that_leaves_something_open_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r'as in "apps/v1/Deployment" or "Deployment\.v1\.apps"'):
        GroupVersionKind.from_string(text)
    subject = make_manager(UNREACHABLE)
    with pytest.raises(ValueError, match="is not a kind"):
        Builder(subject).for_(text)
    with pytest.raises(ValueError, match="is not a kind"):
        Builder(subject).watches(text, enqueue_object)
    subject.close()


async def test_the_refusal_of_a_bare_kind_proposes_the_built_in_ones_of_that_name() -> None:
    subject = make_manager(UNREACHABLE)
    proposal = 'did you mean "apps/v1/Deployment"'
    with pytest.raises(ValueError, match=proposal):
        Builder(subject).for_("Deployment")
    subject.close()


async def test_a_built_in_kind_is_known_by_its_text(api_config: Config) -> None:
    subject, seen = make_manager(api_config), asyncio.Queue[str]()

    async def reconcile(config_map: Manifest) -> None:
        seen.put_nowait(config_map["metadata"]["name"])

    builder = Builder(subject).for_("v1/ConfigMap", labels="mine=yes").owns("Secret.v1")
    controller = builder.build(as_reconciler(subject.client, "v1/ConfigMap", reconcile))
    assert controller.name == "configmap"
    assert ("", "secrets", ("get", "list", "watch")) in [
        (group, plural, tuple(v for v in verbs if v in ("get", "list", "watch")))
        for group, plural, verbs in controller.permissions()
    ]
    async with Client.connect(api_config) as client, subject.running():
        metadata = {"name": "a", "namespace": "default", "labels": {"mine": "yes"}}
        await client.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
        assert await asyncio.wait_for(seen.get(), LIMIT) == "a"
        found = await client.get("v1/ConfigMap", "a", namespace="default")
        assert found["metadata"]["labels"] == {"mine": "yes"}
        assert subject.cache.get("ConfigMap.v1", "a", namespace="default") is not None
        await eventually(client, "v1/ConfigMap", "a", {"kind": "ConfigMap"}, namespace="default")


async def test_a_kind_that_only_the_server_has_is_resolved_at_the_start() -> None:
    async with Environment() as environment:
        await environment.install_crds(Planet)
        admin = environment.client("admin")
        subject, seen = make_manager(environment.config("manager")), asyncio.Queue[Request]()

        async def reconcile(request: Request) -> None:
            seen.put_nowait(request)

        kind = "sky.example.com/v1/Planet"
        Builder(subject).for_(kind).owns("v1/ConfigMap", labels="mine=yes").build(reconcile)
        async with subject.running():
            saturn = await admin.create(
                Planet(metadata=ObjectMeta(name="saturn"), spec=PlanetSpec(rings=True))
            )
            assert await asyncio.wait_for(seen.get(), LIMIT) == Request("saturn")
            found = subject.cache.get(kind, "saturn")
            assert found is not None
            assert found["spec"] == {"rings": True}
            reference = {
                "apiVersion": "sky.example.com/v1",
                "kind": "Planet",
                "name": "saturn",
                "uid": saturn.metadata.uid,
                "controller": True,
            }
            metadata = {
                "name": "moon",
                "namespace": "default",
                "labels": {"mine": "yes"},
                "ownerReferences": [reference],
            }
            await admin.create({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
            # cluster-scoped by discovery: the owner is requested without the namespace of the owned
            assert await asyncio.wait_for(seen.get(), LIMIT) == Request("saturn")

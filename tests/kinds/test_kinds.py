"""D-24 to D-26: typed models of the built-in kinds, which lose nothing and cost nothing where they are not used."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from importlib import import_module
from typing import Any, assert_type, get_args

import orjson
import pytest

from ctrlruntime.api import BUILTIN, ApiModel, ObjectMeta
from ctrlruntime.api.kinds import Manifest, RESTMapping
from ctrlruntime.client.patches import merge_patch
from ctrlruntime.client.transport import Transport
from ctrlruntime.controller import Builder, as_reconciler
from ctrlruntime.envtest import Environment
from ctrlruntime.generate import crds_of
from ctrlruntime.generate.setup import declarations_of
from ctrlruntime.kinds.apps.v1 import Deployment, DeploymentSpec
from ctrlruntime.kinds.base import BuiltinKind, BuiltinModel
from ctrlruntime.kinds.core.v1 import ConfigMap, Container, PodSpec, PodTemplateSpec, ServiceSpec
from ctrlruntime.kinds.meta.v1 import LabelSelector
from ctrlruntime.manager import Manager
from ctrlruntime.resources import Control, Desired, Owner
from hack.kinds import FOLDER, described
from tests.backends import SharedServer
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually


@pytest.fixture(params=["embedded", "kube-apiserver"])
async def environment(request: pytest.FixtureRequest) -> AsyncIterator[Environment]:
    """The embedded server, and the real one."""
    if request.param == "embedded":
        async with Environment() as running:
            yield running
        return
    async with request.getfixturevalue("real_server").environment() as running:
        yield running


Kind = type[BuiltinKind[Any, Any]]
UNKNOWN = {"ofALaterRelease": [{"deep": None, "n": 1}]}


def class_of(mapping: RESTMapping) -> Kind:
    group = mapping.gvk.group.partition(".")[0] or "core"
    module = import_module(f"ctrlruntime.kinds.{group}.{mapping.gvk.version}")
    found: Kind = getattr(module, mapping.gvk.kind)
    return found


KINDS = {str(gvk): mapping for gvk, mapping in BUILTIN.items()}
of_every_kind = pytest.mark.parametrize("mapping", KINDS.values(), ids=KINDS)


def sample(model: type[ApiModel], within: tuple[type[ApiModel], ...] = ()) -> dict[str, Any]:
    """Return a manifest with a value for every field, and one more that no model has, at each level."""
    made: dict[str, Any] = dict(UNKNOWN)
    for name, field in model.model_fields.items():
        wire = field.serialization_alias or name
        if within or wire not in ("apiVersion", "kind"):
            made[wire] = value(field.annotation, (*within, model))
    return {name: each for name, each in made.items() if each is not None}


def value(annotation: Any, within: tuple[type[ApiModel], ...]) -> Any:  # noqa: ANN401 - types and values of any sort
    arguments = [each for each in get_args(annotation) if each is not type(None)]
    if isinstance(annotation, type) and issubclass(annotation, ApiModel):
        lossy = not issubclass(annotation, BuiltinModel)  # ObjectMeta and what is in it
        return None if lossy or within.count(annotation) > 1 else sample(annotation, within)
    if annotation is Any:
        return {"any": [1, "x"]}
    origin = getattr(annotation, "__origin__", None)
    if origin in (list, dict):
        inner = value(arguments[-1], within)
        if inner is None:
            return None
        return [inner] if origin is list else {"key": inner}
    if arguments:
        return value(arguments[0], within)
    plain = {str: "text", int: 3, float: 0.5, bool: True}
    return plain.get(annotation, "2026-11-27T10:00:00Z")


@pytest.mark.criterion("D-24")
@of_every_kind
def test_d_24_each_built_in_kind_is_a_class_that_clients_and_controllers_take(
    mapping: RESTMapping,
) -> None:
    kind = class_of(mapping)
    assert (kind.mapping(), kind.builtin) == (mapping, True)
    assert crds_of([kind]) == []


@pytest.mark.criterion("D-24")
async def test_d_24_the_models_are_those_of_the_real_server(real_server: SharedServer) -> None:
    """What `make kinds` would write; formatting aside. Some seconds: the server makes its whole description."""
    transport = Transport(real_server.config)
    try:
        answer = await transport.request("GET", "/openapi/v2")
    finally:
        await transport.close()
    made = described(orjson.loads(answer.body))
    kept = {str(p.relative_to(FOLDER)): p.read_text() for p in FOLDER.glob("*/*.py")}
    assert {name: statements(text) for name, text in made.items()} == {
        name: statements(text) for name, text in kept.items()
    }


def statements(text: str) -> list[str]:
    """Return what a module has, its imports in any order and one to a name."""
    return sorted(_statements(text))


def _statements(text: str) -> Iterator[str]:
    for node in ast.parse(text).body:
        if isinstance(node, ast.ImportFrom):
            yield from (f"from {node.module} import {each.name}" for each in node.names)
        else:
            yield ast.unparse(node)


@pytest.mark.criterion("D-25")
@of_every_kind
def test_d_25_no_field_is_lost_between_reading_and_writing_known_or_not(
    mapping: RESTMapping,
) -> None:
    kind = class_of(mapping)
    given = {
        **sample(kind),
        "apiVersion": mapping.gvk.api_version,
        "kind": mapping.gvk.kind,
        "metadata": {"name": "a", **UNKNOWN},
    }
    for form in (given, orjson.dumps(given)):
        read = kind.from_manifest(form)
        assert to_the_second(read.to_manifest()) == given
    changed = read.model_copy(deep=True)
    changed.metadata.labels["a"] = "b"
    assert merge_patch(read, changed) == {"metadata": {"labels": {"a": "b"}}}
    desired = Desired.of(read)
    assert desired.mapping == mapping
    assert to_the_second(desired.manifest) == {k: v for k, v in given.items() if k != "status"}


def to_the_second(manifest: Manifest) -> Manifest:
    """Return a manifest whose times are in the form of the samples."""
    made: Manifest = orjson.loads(orjson.dumps(manifest).replace(b".000000Z", b"Z"))
    return made


@pytest.mark.criterion("D-25")
def test_d_25_a_list_that_go_writes_as_null_is_empty() -> None:
    head = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    read = Deployment.from_manifest(
        {
            **head,
            "spec": {"selector": {}, "template": {"spec": {"containers": None, "volumes": None}}},
        }
        | {"status": {"conditions": None}}
    )
    assert read.status.conditions == []


@pytest.mark.criterion("D-24")
def test_d_24_names_with_acronyms_are_read_and_written_as_the_server_has_them() -> None:
    spec = ServiceSpec(cluster_ip="10.0.0.1", external_ips=["10.0.0.2"])
    assert spec.to_wire() == {"clusterIP": "10.0.0.1", "externalIPs": ["10.0.0.2"]}


@pytest.mark.criterion("D-26")
@pytest.mark.parametrize("module", ["ctrlruntime", "ctrlruntime.manager", "ctrlruntime.kinds"])
def test_d_26_nothing_is_imported_before_a_module_is_named(module: str) -> None:
    program = (
        f"import sys, {module}; from ctrlruntime import Builder, Manager\n"
        "print([name for name in sys.modules if name.startswith('ctrlruntime.kinds.') and name.count('.') > 2])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def setup(manager: Manager) -> None:
    """Keep a ConfigMap beside each Deployment, and label the Deployment."""
    control = Control(manager.cache, field_manager="beside")

    async def reconcile(deployment: Deployment) -> None:
        meta = deployment.metadata
        wanted = ConfigMap(
            metadata=ObjectMeta(name=f"{meta.name}-beside", namespace=meta.namespace),
            data={
                "images": ",".join(c.image or "" for c in deployment.spec.template.spec.containers)
            }
            if deployment.spec.template.spec
            else {},
        )
        desired = replace(Desired.of(wanted), ordinal=1)
        await control.ensure(desired, Owner.of(deployment))
        kept = manager.cache.get(ConfigMap, f"{meta.name}-beside", namespace=meta.namespace)
        assert_type(kept, ConfigMap | None)
        assert_type(deployment.status.ready_replicas, int | None)
        changed = deployment.model_copy(deep=True)
        changed.metadata.labels["images"] = str(len(kept.data["images"]) if kept else 0)
        if patch := merge_patch(deployment, changed):
            await manager.client.patch(Deployment, meta.name, patch, namespace=meta.namespace)

    builder = Builder(manager).for_(Deployment).owns(ConfigMap, track_manager="beside")
    builder.build(as_reconciler(manager.client, Deployment, reconcile))


@pytest.mark.criterion("D-24")
async def test_d_24_a_controller_is_for_a_typed_kind_and_owns_another(
    environment: Environment,
) -> None:
    client = environment.client()
    labels = {"app": "typed"}
    template = PodTemplateSpec(
        metadata=ObjectMeta(labels=labels),
        spec=PodSpec(containers=[Container(name="web", image="nginx")]),
    )
    deployment = Deployment(
        metadata=ObjectMeta(name="typed", namespace="default"),
        spec=DeploymentSpec(selector=LabelSelector(match_labels=labels), template=template),
    )
    manager = make_manager(environment.config())
    setup(manager)
    async with manager.running():
        await client.create(deployment)
        found = await eventually(
            lambda: client.get(Deployment, "typed", namespace="default"),
            lambda each: each.metadata.labels.get("images") == "5",
        )
        config = await client.get(ConfigMap, "typed-beside", namespace="default")
        assert config.data == {"images": "nginx"}
        assert config.metadata.owner_references[0].uid == found.metadata.uid
        await client.delete(Deployment, "typed", namespace="default")


@pytest.mark.criterion("D-24")
def test_d_24_the_rights_are_those_of_the_kinds_and_no_crd_is_made_for_them() -> None:
    found = declarations_of(setup)
    rights = {(*rule.groups, *rule.resources, verb) for rule in found.rules for verb in rule.verbs}
    assert {("apps", "deployments", "patch"), ("", "configmaps", "create")} <= rights
    assert crds_of(found.kinds) == []

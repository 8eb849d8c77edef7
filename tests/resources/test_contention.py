"""Two programs that undo each other's writes of one object are an event with the other one's name and fields (R-21)."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import pytest
from structlog.testing import capture_logs

from ctrlruntime.client.auth import StaticAuth
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import APIError
from ctrlruntime.envtest.server import APIServer, ServerOptions
from ctrlruntime.envtest.server.options import User
from ctrlruntime.events.recorder import EVENT
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.resources import Action, Control, Desired, Owner, contention
from ctrlruntime.resources.contention import MANY, REASON, contenders
from tests.resources.test_control import CONFIG_MAP
from tests.support.waiting import eventually

RBAC = "rbac.authorization.k8s.io"
OPTIONS = ManagerOptions(metrics_bind_address="0", health_bind_address="0")


def desired(name: str, color: str) -> Desired:
    metadata = {"name": name, "namespace": "default"}
    data = {"color": color, "size": "1"}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}
    return Desired(mapping=CONFIG_MAP, manifest=manifest)


@pytest.mark.criterion("R-21")
@pytest.mark.parametrize(
    ("other", "words"),
    [("rival", "rival sets data.color each time"), ("manager", "another process writes it as")],
)
async def test_r_21_an_object_that_another_manager_changes_back_is_an_event_that_names_it(
    api_config: Config, other: str, words: str
) -> None:
    name = f"contended-{uuid.uuid4().hex[:8]}"
    async with Client.connect(api_config) as client:
        made: dict[str, Any] = await client.create(desired(f"{name}-owner", "-").manifest)
        owner = Owner.of(made)
        manager = Manager(api_config, OPTIONS)
        manager.cache.declare(CONFIG_MAP, namespaces=["default"], track_manager="manager")
        wanted = desired(name, "red")
        async with manager.running():
            control = Control(manager.cluster, field_manager="manager")
            await control.ensure(wanted, owner)
            for _ in range(MANY + 5):
                body = desired(name, "blue").body(owner)
                found = await client.apply(body, field_manager=other, force=True)
                version = found["metadata"]["resourceVersion"]

                def seen(version: str = version) -> bool:
                    entry = control.look(wanted)
                    return entry is not None and entry.resource_version == version

                await eventually(seen)
                assert (await control.ensure(wanted, owner)).action is Action.UPDATED

            async def events() -> list[dict[str, Any]]:
                listed = await client.list(EVENT, "default")
                return [each for each in listed if each["regarding"].get("uid") == owner.uid]

            (event,) = await eventually(events)
        assert event["reason"] == REASON
        assert event["type"] == "Warning"
        assert f"ConfigMap default/{name} was corrected {MANY} times" in event["note"]
        assert words in event["note"]
        for each in (name, f"{name}-owner"):
            await client.delete(CONFIG_MAP, each, namespace="default")


@pytest.fixture
async def limited() -> AsyncIterator[tuple[Config, Config]]:
    """How an administrator reaches a server, and an account with the rights of the shipped roles: none to get."""
    users = {"admin": User("admin", groups=("system:masters",)), "limited": User("limited")}
    rules = [
        {"apiGroups": [group], "resources": [resource], "verbs": verbs}
        for group, resource, verbs in (
            ("", "configmaps", ["create", "delete", "list", "patch", "watch"]),
            ("events.k8s.io", "events", ["create", "patch"]),
        )
    ]
    role = {"apiVersion": f"{RBAC}/v1", "kind": "ClusterRole", "metadata": {"name": "limited"}}
    binding = {
        **role,
        "kind": "ClusterRoleBinding",
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "limited"},
        "subjects": [{"kind": "User", "name": "limited", "apiGroup": RBAC}],
    }
    async with APIServer(ServerOptions(authorization="RBAC", tokens=users)) as server:
        admin, account = (Config(host=server.url, auth=StaticAuth(token=name)) for name in users)
        async with Client.connect(admin) as client:
            await client.create({**role, "rules": rules})
            await client.create(binding)
        yield admin, account


@pytest.mark.criterion("R-21")
@pytest.mark.parametrize("refused", [False, True])
async def test_r_21_each_object_is_reported_without_a_right_to_get_and_refused_writes_are_no_corrections(
    limited: tuple[Config, Config], refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(contention, "WINDOW", 3600.0)
    admin, account = limited
    async with Client.connect(admin) as client:
        owner = Owner.of(await client.create(desired("owner", "-").manifest))
        manager = Manager(account, OPTIONS)
        manager.cache.declare(CONFIG_MAP, namespaces=["default"], track_manager="manager")
        names = ["contended", "another"]
        with capture_logs() as logs:
            async with manager.running():
                control = Control(manager.cluster, field_manager="manager")
                for name in names:
                    await control.ensure(desired(name, "red"), owner)
                for name in names * (MANY + 1):
                    wanted = desired(name, "red")
                    if refused:
                        wanted.manifest["data"]["size"] = 1
                    body = desired(name, "blue").body(owner)
                    found = await client.apply(body, field_manager="rival", force=True)
                    version = found["metadata"]["resourceVersion"]

                    def seen(wanted: Desired = wanted, version: str = version) -> bool:
                        entry = control.look(wanted)
                        return entry is not None and entry.resource_version == version

                    await eventually(seen)
                    with pytest.raises(APIError) if refused else nullcontext():
                        await control.ensure(wanted, owner)
        notes = [each["event"] for each in logs if "was corrected" in each["event"]]
        assert [note.split()[1] for note in notes] == (
            [] if refused else [f"default/{name}" for name in names]
        )
        assert all("rival sets data.color each time" in each for each in notes)


def test_contenders_are_other_managers_with_what_they_hold_of_own_fields() -> None:
    def entry(manager: str, *keys: str, **more: str) -> dict[str, Any]:
        data: dict[str, Any] = {f"f:{key}": {} for key in keys}
        return {"manager": manager, "fieldsV1": {"f:data": data}, **more}

    body = {"metadata": {"name": "a"}, "data": {"x": "1", "y": "2", "z": "3"}}
    fields = [entry("own", "z"), entry("b", "x", "z"), entry("c", "y", subresource="status")]
    assert contenders(fields, body, "own") == {"b": ["data.x"]}

"""Every verb of the client, against an API server over HTTP."""

import copy
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

import pytest
from aiohttp import web

from ctrlruntime.api import Manifest
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.client.call import Call, Execute
from ctrlruntime.client.client import Client, PatchType
from ctrlruntime.client.config import Config
from ctrlruntime.client.create_or_update import (
    Upserted,
    create_or_patch,
    create_or_update,
    retry_on_conflict,
)
from ctrlruntime.client.errors import (
    AlreadyExists,
    BadRequest,
    Conflict,
    Invalid,
    NoKindMatch,
    NotFound,
    UnsupportedMediaType,
)
from ctrlruntime.client.patches import difference, merge_patch
from ctrlruntime.client.transport import Response
from tests.client.peer import Peer
from tests.client.support import (
    CONFIG_MAP,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    SERVICE_ACCOUNT,
    Seen,
    Widget,
    WidgetSpec,
    config_map,
    deployment,
)


@pytest.mark.criterion("CL-01")
class TestCRUD:
    async def test_manifests(self, client: Client) -> None:
        created = await client.create(config_map("a", {"k": "1"}))
        assert created["metadata"]["uid"]
        created["data"] = {"k": "2"}
        updated = await client.update(created)
        assert updated["metadata"]["resourceVersion"] != created["metadata"]["resourceVersion"]
        read = await client.get(CONFIG_MAP, "a", namespace="default")
        assert read["data"] == {"k": "2"}
        assert (read["apiVersion"], read["kind"]) == ("v1", "ConfigMap")
        await client.delete(CONFIG_MAP, "a", namespace="default")
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", namespace="default")

    async def test_an_answer_is_as_the_server_has_it_and_the_argument_stays(
        self, client: Client
    ) -> None:
        given = await client.create(config_map("a", {"stale": "1"}, labels={"stale": "1"}))
        fresh = {**config_map("a", {"k": "2"}), "immutable": False}
        sent = copy.deepcopy(fresh)
        answer = await client.update(fresh)
        assert fresh == sent
        assert answer["data"] == {"k": "2"}
        assert "labels" not in answer["metadata"]
        assert answer["metadata"]["uid"] == given["metadata"]["uid"]
        assert given["data"] == {"stale": "1"}

    async def test_typed_objects(self, client: Client, widgets: None) -> None:
        widget = Widget(spec=WidgetSpec(size=3))
        widget.metadata.name, widget.metadata.namespace = "w", "default"
        created = await client.create(widget)
        assert isinstance(created, Widget)
        assert created.metadata.uid
        created.spec.size = 4
        assert (await client.update(created)).spec.size == 4
        assert (await client.get(Widget, "w", namespace="default")).spec.size == 4
        assert [w.metadata.name for w in await client.list(Widget)] == ["w"]
        await client.delete(Widget, "w", namespace="default")
        assert await client.list(Widget, "default") == []

    async def test_metadata_only(self, client: Client, widgets: None) -> None:
        await client.create(config_map("a", {"k": "1"}))
        for found in (
            await client.get(CONFIG_MAP, "a", namespace="default", metadata_only=True),
            (await client.list(CONFIG_MAP, "default", labels="!x", metadata_only=True))[0],
        ):
            assert set(found) == {"apiVersion", "kind", "metadata"}
            assert (found["apiVersion"], found["kind"]) == ("v1", "ConfigMap")

    async def test_generate_name(self, client: Client) -> None:
        manifest = config_map("a")
        del manifest["metadata"]["name"]
        manifest["metadata"]["generateName"] = "made-"
        created = await client.create(manifest)
        assert created["metadata"]["name"].startswith("made-")

    async def test_cluster_scoped(self, client: Client) -> None:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        assert (await client.get(NAMESPACE, "n"))["metadata"]["name"] == "n"


@pytest.mark.criterion("CL-02")
class TestErrors:
    async def test_types_and_details(self, client: Client, widgets: None) -> None:
        created = await client.create(config_map("a"))
        with pytest.raises(AlreadyExists) as exists:
            await client.create(config_map("a"))
        assert exists.value.details["name"] == "a"
        with pytest.raises(NotFound) as missing:
            await client.get(CONFIG_MAP, "b", namespace="default")
        assert missing.value.details["kind"] == "configmaps"
        await client.update({**created, "data": {"k": "1"}})
        with pytest.raises(Conflict) as conflict:
            await client.update({**created, "data": {"k": "2"}})
        assert not conflict.value.is_field_conflict
        bad = {
            "apiVersion": "client.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"size": -1},
        }
        with pytest.raises(Invalid) as invalid:
            await client.create(bad)
        assert [cause.field for cause in invalid.value.causes] == ["spec.size"]
        assert invalid.value.status()["code"] == 422

    async def test_a_kind_that_no_server_has(self, client: Client) -> None:
        gadget = GroupVersionKind("nobody.example.com", "v1", "Gadget")
        with pytest.raises(NoKindMatch, match=r"Gadget.*CustomResourceDefinition"):
            await client.get(gadget, "a", namespace="default")


@pytest.mark.criterion("CL-03")
class TestMergePatch:
    def test_only_the_difference(self) -> None:
        old = {"a": 1, "b": {"c": 1, "d": [1]}, "gone": 1, "same": {"x": [1, {"y": 2}]}, "t": 0}
        new = {"a": 2, "b": {"c": 1, "d": [2]}, "same": {"x": [1, {"y": 2}]}, "t": True, "e": {}}
        assert difference(old, new) == {"a": 2, "b": {"d": [2]}, "gone": None, "t": True, "e": {}}
        assert difference(old, old) == {}

    async def test_optimistic_lock(self, client: Client) -> None:
        old = await client.create(config_map("a", {"k": "1"}))
        new = {**old, "data": {"k": "2"}}
        patch = merge_patch(old, new, optimistic_lock=True)
        assert patch == {
            "data": {"k": "2"},
            "metadata": {"resourceVersion": old["metadata"]["resourceVersion"]},
        }
        await client.patch(CONFIG_MAP, "a", {"data": {"x": "y"}}, namespace="default")
        with pytest.raises(Conflict):
            await client.patch(CONFIG_MAP, "a", patch, namespace="default")
        with pytest.raises(ValueError, match="resourceVersion"):
            merge_patch(config_map("a"), new, optimistic_lock=True)

    async def test_json_and_strategic_patches(self, client: Client, widgets: None) -> None:
        await client.create(config_map("a", {"k": "1"}))
        operations = [{"op": "replace", "path": "/data/k", "value": "2"}]
        patched = await client.patch(
            CONFIG_MAP,
            "a",
            operations,
            namespace="default",
            type=PatchType.JSON,
            metadata_only=True,
        )
        assert set(patched) == {"apiVersion", "kind", "metadata"}
        assert (await client.get(CONFIG_MAP, "a", namespace="default"))["data"] == {"k": "2"}
        await client.create(deployment("d"))
        containers = [{"name": "side", "image": "example.com/side:1"}]
        strategic = {"spec": {"template": {"spec": {"containers": containers}}}}
        merged = await client.patch(
            DEPLOYMENT, "d", strategic, namespace="default", type=PatchType.STRATEGIC
        )
        names = [c["name"] for c in merged["spec"]["template"]["spec"]["containers"]]
        assert sorted(names) == ["main", "side"]
        await client.create(
            Widget.from_manifest({"metadata": {"name": "w", "namespace": "default"}})
        )
        with pytest.raises(UnsupportedMediaType):
            await client.patch(Widget, "w", {}, namespace="default", type=PatchType.STRATEGIC)


@pytest.mark.criterion("CL-04")
class TestApply:
    async def test_an_owner_is_needed(self, client: Client) -> None:
        with pytest.raises(ValueError, match="field_manager"):
            await client.apply(config_map("a"))

    async def test_conflict_without_force_names_manager_and_field(self, client: Client) -> None:
        await client.apply(config_map("a", {"k": "1"}), field_manager="one")
        with pytest.raises(Conflict) as conflict:
            await client.apply(config_map("a", {"k": "2"}), field_manager="two")
        assert conflict.value.is_field_conflict
        (cause,) = conflict.value.causes
        assert cause.field == ".data.k"
        assert '"one"' in cause.message
        forced = await client.apply(config_map("a", {"k": "2"}), field_manager="two", force=True)
        assert forced["data"] == {"k": "2"}

    async def test_dry_run_changes_nothing(self, client: Client) -> None:
        answer = await client.apply(config_map("a"), field_manager="one", dry_run=True)
        assert answer["metadata"]["name"] == "a"
        with pytest.raises(NotFound):
            await client.get(CONFIG_MAP, "a", namespace="default")

    async def test_metadata_only_and_what_was_read_can_be_applied(self, client: Client) -> None:
        mine = config_map("a", {"k": "1"})
        answer = await client.apply(mine, field_manager="one", metadata_only=True)
        assert set(answer) == {"apiVersion", "kind", "metadata"}
        read = await client.get(CONFIG_MAP, "a", namespace="default")
        assert read["metadata"]["managedFields"]
        await client.apply(read, field_manager="one")

    async def test_version_only_reads_which_state_was_written_and_no_more(
        self, client: Client, widgets: None
    ) -> None:
        answer = await client.apply(config_map("a"), field_manager="one", version_only=True)
        read = await client.get(CONFIG_MAP, "a", namespace="default")
        assert answer == {
            "metadata": {key: read["metadata"][key] for key in ("uid", "resourceVersion")}
        }
        patched = await client.patch(
            CONFIG_MAP, "a", {"data": {"k": "3"}}, namespace="default", version_only=True
        )
        assert patched["metadata"]["uid"] == answer["metadata"]["uid"]
        versions = [int(each["metadata"]["resourceVersion"]) for each in (answer, patched)]
        assert versions == sorted(set(versions))
        widget = Widget.from_manifest({"metadata": {"name": "w", "namespace": "default"}})
        with pytest.raises(ValueError, match="to_manifest"):
            await client.apply(widget, field_manager="one", version_only=True)


@pytest.mark.criterion("CL-05")
async def test_status_and_spec_are_written_apart(client: Client, widgets: None) -> None:
    manifest = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 1}}
    widget = await client.create(Widget.from_manifest(manifest))
    widget.status.ready = True
    widget.spec.size = 2
    after_status = await client.update_status(widget)
    assert (after_status.status.ready, after_status.spec.size) == (True, 1)
    after_status.status.ready = False
    after_status.spec.size = 3
    after_spec = await client.update(after_status)
    assert (after_spec.status.ready, after_spec.spec.size) == (True, 3)
    patched = await client.patch_status(
        Widget, "w", {"status": {"ready": False}}, namespace="default"
    )
    assert (patched.status.ready, patched.spec.size) == (False, 3)


@pytest.mark.criterion("CL-06")
async def test_the_status_as_a_subresource(client: Client, widgets: None) -> None:
    manifest = {"metadata": {"name": "w", "namespace": "default"}, "spec": {"size": 1}}
    widget = await client.create(Widget.from_manifest(manifest))
    widget.status.ready = True
    await client.update_status(widget)
    read = await client.get_subresource(Widget, "w", "status", namespace="default")
    assert (read["kind"], read["status"]) == ("Widget", {"ready": True})
    await client.patch_status(Widget, "w", {"status": {"ready": False}}, namespace="default")
    applied = {
        "apiVersion": "client.example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "w", "namespace": "default"},
        "status": {"ready": True},
    }
    with pytest.raises(Conflict) as conflict:
        await client.apply(applied, field_manager="other", subresource="status")
    assert [cause.field for cause in conflict.value.causes] == [".status.ready"]
    forced = await client.apply(applied, field_manager="other", subresource="status", force=True)
    assert (forced["status"], forced["spec"]) == ({"ready": True}, {"size": 1})


@pytest.mark.criterion("CL-06")
async def test_a_pod_is_evicted(client: Client) -> None:
    container = {"name": "main", "image": "example.com/app:1"}
    metadata = {"name": "p", "namespace": "default"}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}
    await client.create(pod | {"spec": {"containers": [container]}})
    eviction = {"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": metadata}
    try:
        answer = await client.create_subresource(
            POD, "p", "eviction", eviction, namespace="default"
        )
    except BadRequest:  # policy/v1 from 1.22 on, the beta until 1.21
        eviction["apiVersion"] = "policy/v1"
        answer = await client.create_subresource(
            POD, "p", "eviction", eviction, namespace="default"
        )
    assert answer["status"] == "Success"
    with pytest.raises(NotFound):
        await client.get(POD, "p", namespace="default")


@pytest.mark.criterion("CL-06")
async def test_a_token_of_a_service_account(client: Client) -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount"}
    await client.create(account | {"metadata": {"name": "robot", "namespace": "default"}})
    request = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": 3600},
    }
    answer = await client.create_subresource(
        SERVICE_ACCOUNT, "robot", "token", request, namespace="default"
    )
    assert answer["kind"] == "TokenRequest"
    assert answer["status"]["token"].count(".") == 2
    assert answer["status"]["expirationTimestamp"]


@pytest.mark.criterion("CL-06")
async def test_scale(client: Client) -> None:
    await client.create(deployment("d", replicas=1))
    scale = await client.patch_scale(DEPLOYMENT, "d", 4, namespace="default")
    assert (scale["kind"], scale["spec"]["replicas"]) == ("Scale", 4)
    assert (await client.get_scale(DEPLOYMENT, "d", namespace="default"))["spec"]["replicas"] == 4
    assert (await client.get(DEPLOYMENT, "d", namespace="default"))["spec"]["replicas"] == 4


@pytest.mark.criterion("CL-07")
async def test_list_options_and_paging(client: Client, seen: Seen) -> None:
    for number in range(5):
        await client.create(config_map(f"m{number}", labels={"odd": str(number % 2)}))
    seen.requests.clear()
    found = await client.list(CONFIG_MAP, "default", labels={"odd": "1"})
    assert [m["metadata"]["name"] for m in found] == ["m1", "m3"]
    found = await client.list(CONFIG_MAP, fields={"metadata.name": "m2"})
    assert [m["metadata"]["name"] for m in found] == ["m2"]
    assert len(await client.list(CONFIG_MAP, "default", labels="odd in (0,1)", limit=3)) == 3
    assert len(seen.requests) == 3
    pages = [page async for page in client.pages(CONFIG_MAP, "default", labels="odd", limit=2)]
    assert [len(page.items) for page in pages] == [2, 2, 1]
    assert pages[-1].continue_ is None


@pytest.mark.criterion("CL-07")
async def test_what_is_asked_is_the_query() -> None:
    queries: list[str] = []

    async def answer(request: web.Request) -> web.StreamResponse:
        queries.append(f"{request.path}?{unquote(request.query_string)}")
        more = "t" if len(queries) == 4 else ""
        return web.json_response({"metadata": {"resourceVersion": "1", "continue": more}})

    async with Peer(answer) as peer, Client.connect(Config(host=peer.url)) as client:
        await client.list(CONFIG_MAP)
        await client.list(CONFIG_MAP, "ns", labels="a in (x,y),!b", limit=7)
        await client.list(CONFIG_MAP, labels={"a": "x"}, fields={"metadata.name": "m"})
        pages = client.pages(CONFIG_MAP, "ns", limit=2, resource_version="0")
        assert [page.items async for page in pages] == [[], []]
    assert queries == [
        "/api/v1/configmaps?limit=500",
        "/api/v1/namespaces/ns/configmaps?labelSelector=a in (x,y),!b&limit=7",
        "/api/v1/configmaps?labelSelector=a=x&fieldSelector=metadata.name=m&limit=500",
        "/api/v1/namespaces/ns/configmaps?limit=2&resourceVersion=0",
        "/api/v1/namespaces/ns/configmaps?limit=2&continue=t",
    ]


@pytest.mark.criterion("CL-08")
async def test_a_grace_period_and_the_version_are_sent(client: Client) -> None:
    container = {"name": "main", "image": "example.com/app:1"}
    pod: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default", "finalizers": ["example.com/wait"]},
        "spec": {"containers": [container], "nodeName": "nowhere"},
    }
    created = await client.create(pod)
    await client.patch(POD, "p", {"metadata": {"labels": {"a": "b"}}}, namespace="default")
    version = created["metadata"]["resourceVersion"]
    with pytest.raises(Conflict):
        await client.delete(POD, "p", namespace="default", resource_version=version)
    await client.delete(POD, "p", namespace="default", grace_period=7)
    deleting = await client.get(POD, "p", namespace="default")
    assert deleting["metadata"]["deletionGracePeriodSeconds"] == 7


@pytest.mark.criterion("CL-08")
async def test_delete_with_preconditions_and_delete_collection(client: Client) -> None:
    created = await client.create(config_map("a", finalizers=["example.com/wait"]))
    with pytest.raises(Conflict):
        await client.delete(CONFIG_MAP, "a", namespace="default", uid="another")
    uid = created["metadata"]["uid"]
    await client.delete(CONFIG_MAP, "a", namespace="default", uid=uid, propagation="Foreground")
    deleting = await client.get(CONFIG_MAP, "a", namespace="default")
    assert deleting["metadata"]["deletionTimestamp"]
    for name in ("b", "c", "d"):
        await client.create(config_map(name, labels={"which": "many" if name != "d" else "one"}))
    await client.delete_collection(CONFIG_MAP, "default", labels={"which": "many"})
    assert len(await client.list(CONFIG_MAP, "default", labels="which")) == 1


@pytest.mark.criterion("CL-09")
class TestDefaults:
    async def test_namespaced(self, client: Client) -> None:
        inside = client.namespaced("default")
        manifest = config_map("a")
        del manifest["metadata"]["namespace"]
        assert (await inside.create(manifest))["metadata"]["namespace"] == "default"
        assert (await inside.get(CONFIG_MAP, "a"))["metadata"]["name"] == "a"
        with pytest.raises(ValueError, match="'default', not 'other'"):
            await inside.get(CONFIG_MAP, "a", namespace="other")
        assert await inside.get(NAMESPACE, "default")

    async def test_a_dry_run_of_a_delete_with_options_deletes_nothing(self, client: Client) -> None:
        made = await client.create(config_map("a"))
        uid = made["metadata"]["uid"]
        dry = client.dry_run()
        await dry.delete(CONFIG_MAP, "a", namespace="default", uid=uid, propagation="Background")
        await dry.delete_collection(CONFIG_MAP, "default", propagation="Background")
        assert (await client.get(CONFIG_MAP, "a", namespace="default"))["metadata"]["uid"] == uid

    async def test_dry_run_and_the_call_beats_it(self, client: Client) -> None:
        dry = client.dry_run()
        await dry.create(config_map("a"))
        assert await client.list(CONFIG_MAP, "default", fields="metadata.name=a") == []
        await dry.create(config_map("a"), dry_run=False)
        await dry.delete(CONFIG_MAP, "a", namespace="default")
        assert await client.get(CONFIG_MAP, "a", namespace="default")

    async def test_field_owner_and_the_call_beats_it(self, client: Client) -> None:
        owned = client.field_owner("mine")
        applied = await owned.apply(config_map("a", {"k": "1"}))
        assert applied["metadata"]["managedFields"][0]["manager"] == "mine"
        other = await owned.create(config_map("b", {"k": "1"}), field_manager="theirs")
        assert other["metadata"]["managedFields"][0]["manager"] == "theirs"

    @pytest.mark.parametrize("api_server", ["embedded"], indirect=True)  # servers from 1.25 on
    async def test_field_validation_and_the_call_beats_it(
        self, client: Client, widgets: None
    ) -> None:
        strict = client.field_validation("Strict")
        manifest: dict[str, Any] = {
            "apiVersion": "client.example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "w", "namespace": "default"},
            "spec": {"nothing": 1},
        }
        with pytest.raises(BadRequest, match="nothing"):
            await strict.create(manifest)
        created = await strict.create(manifest, field_validation="Ignore")
        assert created["spec"] == {}


@pytest.mark.criterion("CL-13")
async def test_interceptors_see_each_verb_and_can_replace_or_delegate(client: Client) -> None:
    verbs = []

    async def watch(call: Call, execute: Execute) -> Response:
        verbs.append(call.verb)
        if call.name == "forbidden-name":
            return Response(200, {}, b'{"metadata":{"name":"made-up"}}')
        return await execute(call)

    intercepted = client.intercepted(watch)
    created = await intercepted.create(config_map("a"))
    await intercepted.update(created)
    await intercepted.patch(CONFIG_MAP, "a", {"data": {"k": "v"}}, namespace="default")
    await intercepted.apply(config_map("a"), field_manager="m")
    await intercepted.get(CONFIG_MAP, "a", namespace="default")
    await intercepted.list(CONFIG_MAP)
    await intercepted.delete(CONFIG_MAP, "a", namespace="default")
    await intercepted.delete_collection(CONFIG_MAP, "default", labels="x")
    faked = await intercepted.get(CONFIG_MAP, "forbidden-name", namespace="default")
    assert faked["metadata"]["name"] == "made-up"
    assert verbs == [
        "create",
        "update",
        "patch",
        "apply",
        "get",
        "list",
        "delete",
        "deletecollection",
        "get",
    ]


class TestUpsert:
    @pytest.mark.criterion("HE-02")
    async def test_create_or_update(self, client: Client, seen: Seen) -> None:
        def set_k(value: str) -> Callable[[Manifest], None]:
            return lambda obj: obj["data"].update(k=value)

        _, outcome = await create_or_update(client, config_map("a"), set_k("1"))
        assert outcome is Upserted.CREATED
        seen.requests.clear()
        _, outcome = await create_or_update(client, config_map("a"), set_k("1"))
        assert outcome is Upserted.UNCHANGED
        assert seen.requests == [("GET", "200")]
        updated, outcome = await create_or_update(client, config_map("a"), set_k("2"))
        assert (outcome, updated["data"]) == (Upserted.UPDATED, {"k": "2"})
        with pytest.raises(ValueError, match=r"metadata\.name"):
            await create_or_update(
                client, config_map("a"), lambda o: o["metadata"].update(name="b")
            )

    @pytest.mark.criterion("HE-03")
    async def test_create_or_patch(self, client: Client, widgets: None) -> None:
        def want(size: int, ready: bool) -> Callable[[Widget], None]:
            def mutate(widget: Widget) -> None:
                widget.spec.size = size
                widget.status.ready = ready

            return mutate

        def named() -> Widget:
            return Widget.from_manifest({"metadata": {"name": "w", "namespace": "default"}})

        outcomes = [
            (await create_or_patch(client, named(), want(*wanted)))[1]
            for wanted in ((1, True), (1, True), (2, True), (3, False), (3, True))
        ]
        assert outcomes == [
            Upserted.CREATED,
            Upserted.UNCHANGED,
            Upserted.UPDATED,
            Upserted.UPDATED_STATUS,
            Upserted.UPDATED_STATUS_ONLY,
        ]
        assert (await client.get(Widget, "w", namespace="default")).status.ready


async def test_retry_on_conflict(client: Client) -> None:
    await client.create(config_map("a", {"n": "0"}))
    attempts = 0

    async def increment() -> None:
        nonlocal attempts
        attempts += 1
        read = await client.get(CONFIG_MAP, "a", namespace="default")
        if attempts < 3:
            await client.patch(
                CONFIG_MAP, "a", {"data": {"other": str(attempts)}}, namespace="default"
            )
        read["data"]["n"] = str(int(read["data"]["n"]) + 1)
        await client.update(read)

    await retry_on_conflict(increment)
    assert attempts == 3
    assert (await client.get(CONFIG_MAP, "a", namespace="default"))["data"]["n"] == "1"


@pytest.mark.criterion("LV-8")
class TestConflicts:
    async def test_a_field_conflict_is_not_retried(self, client: Client) -> None:
        """Another manager has the field: it would not go away."""
        await client.apply(config_map("a", {"k": "theirs"}), field_manager="them")
        attempts = 0

        async def apply() -> None:
            nonlocal attempts
            attempts += 1
            await client.apply(config_map("a", {"k": "mine"}), field_manager="me")

        with pytest.raises(Conflict) as error:
            await retry_on_conflict(apply)
        assert error.value.is_field_conflict
        assert attempts == 1

    async def test_create_or_update_takes_over_a_field_of_another_manager(
        self, client: Client
    ) -> None:
        """An update is no apply: it conflicts over versions, never over fields."""
        await client.apply(config_map("a", {"k": "theirs"}), field_manager="them")
        updated, outcome = await create_or_update(
            client, config_map("a"), lambda obj: obj["data"].update(k="mine")
        )
        assert (outcome, updated["data"]) == (Upserted.UPDATED, {"k": "mine"})

    async def test_create_or_update_conflicts_with_a_write_after_its_read_and_a_retry_keeps_both(
        self, client: Client
    ) -> None:
        await client.create(config_map("a", {"k": "1"}))
        others = 1
        changes: list[str] = []

        async def interfere(call: Call, execute: Execute) -> Response:
            nonlocal others
            if call.verb == "update" and others:
                others -= 1
                changes.append("theirs")
                patch = {"data": {"other": " ".join(changes)}}
                await client.patch(CONFIG_MAP, "a", patch, namespace="default")
            return await execute(call)

        disturbed = client.intercepted(interfere)

        def mutate(obj: Manifest) -> None:
            obj["data"]["k"] = "2"

        with pytest.raises(Conflict) as error:
            await create_or_update(disturbed, config_map("a"), mutate)
        assert not error.value.is_field_conflict
        others = 1
        await retry_on_conflict(lambda: create_or_update(disturbed, config_map("a"), mutate))
        found = await client.get(CONFIG_MAP, "a", namespace="default")
        assert found["data"] == {"k": "2", "other": "theirs theirs"}

"""`generate`: values that are drawn once for each tenant, stay, and are seen nowhere but in their Secret."""

from __future__ import annotations

import base64
import re
from typing import Any

import pytest

from apis.tenancy import Characters, GeneratedValue, Tenant, TenantTemplate
from ctrlruntime.client.client import PatchType
from ctrlruntime.json import Json
from internal.tenancy.objects.generated_values import draw
from internal.tenancy.shared.labels import DRAW_AGAIN, DRAWN_FOR
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, SECRET, TenancyHarness, config_map

pytestmark = pytest.mark.criterion("GENERATE")
GENERATE = {"password": {"length": 24}, "pin": {"length": 8, "characters": "Digits"}}


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def credentials(**fields: object) -> dict[str, Any]:
    spec = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "{{ .password }}"}}
    return {"id": "login", "nameTemplate": "{{ .uid }}-login", "spec": spec, **fields}


async def template(fleet: Fleet, name: str = "app", **spec: object) -> None:
    kind = TenantTemplate.mapping()
    head = {"apiVersion": kind.gvk.api_version, "kind": kind.gvk.kind}
    metadata = {"name": name, "namespace": fleet.namespace}
    spec = {"registryId": "registry", "generate": GENERATE, **spec}
    await fleet.harness.put(kind, {**head, "metadata": metadata, "spec": spec})


def value(secret: dict[str, Any], key: str = "password") -> str:
    return base64.b64decode(secret["data"][key]).decode()


async def made(harness: TenancyHarness, **spec: Json) -> Fleet:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await template(fleet, **{"secrets": [credentials()], **spec})
    await fleet.ready("a-app")
    return fleet


@pytest.mark.parametrize(
    ("characters", "pattern"),
    [
        (Characters.ALPHANUMERIC, "[A-Za-z0-9]{40}"),
        (Characters.LOWERCASE, "[a-z0-9]{40}"),
        (Characters.HEX, "[0-9a-f]{40}"),
        (Characters.DIGITS, "[0-9]{40}"),
    ],
)
def test_a_value_has_its_length_and_characters(characters: Characters, pattern: str) -> None:
    drawn = {draw(GeneratedValue(length=40, characters=characters)) for _ in range(50)}
    assert len(drawn) == 50
    assert all(re.fullmatch(pattern, each) for each in drawn)


@pytest.mark.asyncio(loop_scope="module")
async def test_each_tenant_has_values_of_its_own_that_stay_when_all_else_changes(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness)
    fleet.row("b")
    await fleet.ready("b-app")
    kept = await fleet.get(SECRET, "a-app-generated")
    other = await fleet.get(SECRET, "b-app-generated")
    assert value(kept) != value(other)
    assert (len(value(kept)), len(value(kept, "pin"))) == (24, 8)
    assert value(await fleet.get(SECRET, "a-login")) == value(kept)
    found = await fleet.read(Tenant, "a-app")
    assert found.status.generated_values == ["password", "pin"]
    assert value(kept) not in found.model_dump_json()

    fleet.row("a", plan="gold")
    await template(fleet, secrets=[credentials(labelsTemplate={"changed": "yes"})])
    await fleet.there(
        SECRET, "a-login", lambda seen: "changed" in (seen["metadata"].get("labels") or {})
    )
    await harness.restart_manager()
    await fleet.ready("a-app")
    assert value(await fleet.get(SECRET, "a-app-generated")) == value(kept)
    assert value(await fleet.get(SECRET, "a-login")) == value(kept)

    longer = {**GENERATE, "password": {"length": 64}, "token": {"characters": "Hex"}}
    await template(fleet, generate=longer, secrets=[credentials()])
    seen = await fleet.there(SECRET, "a-app-generated", lambda each: "token" in each["data"])
    assert value(seen) == value(kept)
    assert value(await fleet.get(SECRET, "a-login")) == value(kept)

    fleet.row("a", active=0)
    await fleet.gone(Tenant, "a-app")
    owner = kept["metadata"]["ownerReferences"][0]
    assert (owner["kind"], owner["uid"]) == ("Tenant", found.metadata.uid)


@pytest.mark.asyncio(loop_scope="module")
async def test_values_that_are_lost_are_not_drawn_anew_unless_that_is_accepted(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness)
    before = await fleet.get(SECRET, "a-app-generated")
    await harness.client.delete(SECRET, "a-app-generated", namespace=fleet.namespace)
    found = await fleet.until(Tenant, "a-app", "Ready", "False", "VariablesBuildError")
    assert "password, pin are lost from the Secret 'a-app-generated'" in found.message
    assert DRAW_AGAIN in found.message
    assert value(await fleet.get(SECRET, "a-login")) == value(before)

    metadata = {
        key: before["metadata"][key]
        for key in ("name", "namespace", "labels", "annotations", "ownerReferences")
    }
    await harness.client.create({**before, "metadata": metadata})
    await fleet.ready("a-app")
    assert value(await fleet.get(SECRET, "a-login")) == value(before)

    await harness.client.delete(SECRET, "a-app-generated", namespace=fleet.namespace)
    await fleet.until(Tenant, "a-app", "Ready", "False", "VariablesBuildError")
    accepted = {"metadata": {"annotations": {DRAW_AGAIN: "password, pin"}}}
    await fleet.patch(Tenant, "a-app", accepted)
    await fleet.ready("a-app")
    anew = await fleet.get(SECRET, "a-app-generated")
    assert value(anew) != value(before)
    await fleet.there(SECRET, "a-login", lambda seen: value(seen) == value(anew))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_foreign_secret_of_that_name_is_not_touched(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    foreign = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "a-app-generated", "namespace": fleet.namespace},
        "data": {"password": base64.b64encode(b"theirs").decode()},
    }
    await harness.client.create(foreign)
    fleet.row("a")
    await fleet.registry()
    await template(fleet, secrets=[credentials()])
    found = await fleet.until(Tenant, "a-app", "Ready", "False", "VariablesBuildError")
    assert "not made for this tenant is in the way" in found.message
    assert (await fleet.get(SECRET, "a-app-generated"))["data"] == foreign["data"]
    await harness.client.delete(SECRET, "a-app-generated", namespace=fleet.namespace)
    await fleet.ready("a-app")
    seen = await fleet.get(SECRET, "a-app-generated")
    tenant = await fleet.read(Tenant, "a-app")
    assert seen["metadata"]["annotations"][DRAWN_FOR] == tenant.metadata.uid


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("present_first", [False, True])
async def test_a_tenant_under_another_name_takes_the_values_over_with_the_objects(
    harness: TenancyHarness, present_first: bool
) -> None:
    fleet = await made(harness)
    before = value(await fleet.get(SECRET, "a-app-generated"))
    uid = (await fleet.get(SECRET, "a-login"))["metadata"]["uid"]
    kind = TenantTemplate.mapping()
    await template(fleet, "renamed", secrets=[credentials()])
    if present_first:
        await fleet.until(Tenant, "a-renamed", "Conflicted", "True")
    await harness.client.delete(kind, "app", namespace=fleet.namespace)
    await fleet.ready("a-renamed")
    await fleet.gone(Tenant, "a-app")
    assert value(await fleet.get(SECRET, "a-renamed-generated")) == before
    login = await fleet.get(SECRET, "a-login")
    assert (value(login), login["metadata"]["uid"]) == (before, uid)


@pytest.mark.asyncio(loop_scope="module")
async def test_names_that_the_rows_have_or_places_that_are_seen_are_refused(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    taken: dict[str, Any] = {"planId": {}, "password": {}}
    await template(fleet, generate=taken, configMaps=[config_map("c", "{{ .uid }}-c")])
    found = await fleet.until(TenantTemplate, "app", "Valid", "False")
    assert "generate.planId: the rows have a variable of that name" in found.message
    shown = config_map("c", "{{ .password }}")
    await template(fleet, configMaps=[shown])
    refused = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert "it uses the sensitive variable 'password'" in refused.message
    assert await fleet.get(CONFIG_MAP, "a-c") is None


@pytest.mark.asyncio(loop_scope="module")
async def test_two_values_written_at_once_by_two_hands_are_both_kept(
    harness: TenancyHarness,
) -> None:
    fleet = await made(harness)
    before = await fleet.get(SECRET, "a-app-generated")
    by_hand = {"data": {"token": base64.b64encode(b"by-hand").decode()}}
    await harness.client.patch(
        SECRET, "a-app-generated", by_hand, namespace=fleet.namespace, type=PatchType.MERGE
    )
    await template(fleet, generate={**GENERATE, "token": {}}, secrets=[credentials()])
    await fleet.ready("a-app")
    seen = await fleet.get(SECRET, "a-app-generated")
    assert (value(seen, "token"), value(seen)) == ("by-hand", value(before))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_secret_that_the_server_refuses_is_in_the_condition(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    name = "t" * 245  # with the uid and `-generated`, longer than a name may be
    await template(fleet, name, configMaps=[config_map("c", "{{ .uid }}-c")])
    found = await fleet.until(Tenant, f"a-{name}", "Ready", "False", "VariablesBuildError")
    assert "the generated values have no Secret" in found.message
    assert await fleet.get(CONFIG_MAP, "a-c") is None

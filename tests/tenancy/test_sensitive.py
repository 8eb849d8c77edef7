"""Sensitive values live in one Secret per tenant, and nowhere else: everything there is is searched."""

from __future__ import annotations

import base64
import hashlib
import io
from collections.abc import Iterable
from typing import Any

import orjson
import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import APIError
from ctrlruntime.envtest.proxy import DelayEvents, Match
from ctrlruntime.manager.logs import make_logger
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import SECRET, SERVICE, TenancyHarness, config_map

pytestmark = pytest.mark.asyncio(loop_scope="module")

PASSWORD = "correct-horse-4711"
SENSITIVE = {"planId": "plan", "password": {"column": "secret", "sensitive": True}}


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def credentials(template: str = "{{ .password }}") -> dict[str, Any]:
    """A template entry: a Secret made of the sensitive value."""
    spec = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": template}}
    return {"id": "credentials", "nameTemplate": "{{ .uid }}-credentials", "spec": spec}


def shapes(value: str) -> dict[str, str]:
    """What a value may look like when it got somewhere it does not belong."""
    data = value.encode()
    return {
        "plain": value,
        "upper": value.upper(),
        "base64": base64.b64encode(data).decode(),
        "base64 twice": base64.b64encode(base64.b64encode(data)).decode(),
        "md5": hashlib.md5(data).hexdigest(),
        "sha1": hashlib.sha1(data).hexdigest(),
        "sha256": hashlib.sha256(data).hexdigest(),
    }


async def everything(harness: TenancyHarness) -> list[dict[str, Any]]:
    """Every object of every kind that the server serves."""
    ours = (Tenant, TenantRegistry, TenantTemplate)
    kinds = [*BUILTIN.values(), *(kind.mapping() for kind in ours)]
    found: list[dict[str, Any]] = []
    for kind in kinds:
        try:
            items = await harness.client.list(kind)
        except APIError:
            continue  # not served, or nothing that can be listed
        found += items
    assert len(found) > 10
    return found


async def search(
    harness: TenancyHarness, value: str, *, allowed: Iterable[str] = (), output: str = ""
) -> None:
    """Look for a value, in all its shapes, in the server, the log and what was printed."""
    places = {
        f"{o['kind']} {o['metadata'].get('namespace')}/{o['metadata']['name']}": orjson.dumps(o)
        for o in await everything(harness)
    }
    places["log"] = (harness.folder / "manager.log").read_bytes()
    places["output"] = output.encode()
    for place, content in places.items():
        if place in set(allowed):
            continue
        for shape, text in shapes(value).items():
            assert text.encode() not in content, f"{shape} of the value in {place}"


def own_secrets(fleet: Fleet, uid: str) -> list[str]:
    """Where the value belongs."""
    names = (f"{uid}-app-values", f"{uid}-credentials")
    return [f"Secret {fleet.namespace}/{name}" for name in names]


def decoded(secret: dict[str, Any]) -> dict[str, str]:
    return {key: base64.b64decode(value).decode() for key, value in secret["data"].items()}


@pytest.mark.criterion("sensitive")
async def test_a_value_is_in_its_secrets_and_nowhere_else(
    harness: TenancyHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", secret=PASSWORD)
    await fleet.registry(extraValueMappings=SENSITIVE)
    await fleet.template(
        secrets=[credentials()],
        configMaps=[config_map("cm", "{{ .uid }}-cm", {"plan": "{{ .planId }}"})],
    )
    await fleet.ready("a-app")
    assert decoded(await fleet.get(SECRET, "a-app-values")) == {"password": PASSWORD}
    assert decoded(await fleet.get(SECRET, "a-credentials")) == {"password": PASSWORD}
    tenant = await fleet.read(Tenant, "a-app")
    assert tenant.spec.sensitive_variables is not None
    assert tenant.spec.sensitive_variables.names == ["password"]
    assert "password" not in tenant.spec.variables
    allowed = own_secrets(fleet, "a")
    await search(harness, PASSWORD, allowed=allowed, output="".join(capfd.readouterr()))

    # a changed value reaches what uses it, and touches nothing else: not even the Tenant, in
    # which nothing can be derived from the value therefore
    await harness.idle()
    before = await fleet.get(Tenant.mapping(), "a-app")
    mark = harness.mark()
    fleet.row("a", secret="another-value-0815")
    await fleet.there(
        SECRET, "a-credentials", lambda s: decoded(s) == {"password": "another-value-0815"}
    )
    await harness.idle()
    assert sorted(line.split(" ", 1)[1] for line in fleet.writes(mark)) == [
        "secrets a-app-values",
        "secrets a-credentials",
    ]
    assert await fleet.get(Tenant.mapping(), "a-app") == before
    await search(harness, "another-value-0815", allowed=allowed)
    await search(harness, PASSWORD)

    # it goes with the tenant
    fleet.row("a", active=0)
    await fleet.gone(Tenant, "a-app")
    await fleet.gone(SECRET, "a-credentials")
    await fleet.gone(SECRET, "a-app-values")
    await search(harness, "another-value-0815")


@pytest.mark.criterion("sensitive")
async def test_the_servers_refusal_is_reported_without_the_value_it_quotes(
    harness: TenancyHarness, capfd: pytest.CaptureFixture[str]
) -> None:
    value, number = "pass word-8899", "001771239466"
    fleet = await Fleet.make(harness)
    fleet.row("a", secret=value)
    fleet.row("b", secret=number)
    await fleet.registry(extraValueMappings=SENSITIVE)
    labelled = config_map("label", "{{ .uid }}-label", labelsTemplate={"x": "{{ .password }}!"})
    port = {"port": "{{ .password | int }}", "protocol": "TCP"}
    shouted = config_map(
        "shout", "{{ .uid }}-shout", labelsTemplate={"x": "{{ .password|upper }}!"}
    )
    service = {
        "id": "svc",
        "nameTemplate": "{{ .uid }}-svc",
        "spec": {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [port]}},
    }
    await fleet.template(configMaps=[labelled, shouted], services=[service])
    for uid in ("a", "b"):
        said = await fleet.until(Tenant, f"{uid}-app", "Ready", "False", "ResourcesFailed")
        assert "the server refused it: Invalid" in said.message
        assert "spec.ports[0].port" in said.message
    await fleet.event("ResourceFailed")
    assert await fleet.get(SERVICE, "b-svc") is None
    printed = "".join(capfd.readouterr())
    await search(harness, value, allowed=own_secrets(fleet, "a"), output=printed)
    await search(harness, number, allowed=own_secrets(fleet, "b"), output=printed)
    everywhere = [o for o in await everything(harness) if o["kind"] != "Secret"]
    log = (harness.folder / "manager.log").read_bytes()
    # So long that no time, UID or certificate has it by chance.
    assert b"1771239466" not in orjson.dumps(everywhere) + log, "nor the number made of it"


@pytest.mark.criterion("sensitive")
async def test_a_value_cannot_get_into_a_name(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", secret="named-5566")
    await fleet.registry(extraValueMappings=SENSITIVE)
    inside = config_map("space", "x", targetNamespace="{{ .password }}")
    await fleet.template(configMaps=[config_map("cm", "cm-{{ .password }}"), inside])
    said = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert "it uses the sensitive variable 'password', whose value would be seen" in said.message
    await search(harness, "named-5566", allowed=own_secrets(fleet, "a"))


@pytest.mark.criterion("sensitive")
async def test_the_secret_is_put_back_and_goes_when_it_is_not_needed(
    harness: TenancyHarness,
) -> None:
    fleet, own = await Fleet.make(harness), "put-back-4711"
    fleet.row("a", secret=own)
    await fleet.registry(extraValueMappings=SENSITIVE)
    await fleet.template(secrets=[credentials()])
    await fleet.ready("a-app")
    await fleet.delete(SECRET, "a-app-values")
    await fleet.there(SECRET, "a-app-values")
    await fleet.ready("a-app")
    spoilt = {"op": "replace", "path": "/data/password", "value": "aGFja2Vk"}
    await harness.client.patch(
        SECRET, "a-app-values", [spoilt], namespace=fleet.namespace, type=PatchType.JSON
    )
    await fleet.there(SECRET, "a-app-values", lambda s: decoded(s)["password"] == own)
    await fleet.there(SECRET, "a-credentials", lambda s: decoded(s)["password"] == own)

    plain = {"extraValueMappings": {"password": {"column": "plan", "sensitive": None}}}
    await fleet.patch(TenantRegistry, "registry", {"spec": plain})
    await fleet.gone(SECRET, "a-app-values")
    await fleet.there(SECRET, "a-credentials", lambda s: decoded(s)["password"] == "basic")
    await fleet.ready("a-app")
    await fleet.patch(
        TenantRegistry,
        "registry",
        {"spec": {"extraValueMappings": {"password": SENSITIVE["password"]}}},
    )
    await fleet.there(SECRET, "a-credentials", lambda s: decoded(s)["password"] == own)
    await fleet.ready("a-app")

    await fleet.delete(TenantRegistry, "registry")
    await fleet.gone(Tenant, "a-app")
    await fleet.gone(SECRET, "a-app-values")
    await search(harness, own)


@pytest.mark.criterion("sensitive")
@pytest.mark.parametrize("late", [1, 2])
async def test_the_secret_is_put_back_whichever_watch_reports_last(
    harness: TenancyHarness, late: int
) -> None:
    """Its values are watched, and with all Secrets its owner: the two streams know no order."""
    fleet = await Fleet.make(harness)
    fleet.row("a", secret=f"put-back-{late}-4711")
    await fleet.registry(extraValueMappings=SENSITIVE)
    await fleet.template(secrets=[credentials()])
    await fleet.ready("a-app")
    secret = Match(user="manager", namespace=fleet.namespace, name="a-app-values")
    delay = DelayEvents(seconds=0.5, types=("DELETED",))
    rule = harness.environment.proxy.add(delay, secret, nth=late, times=1)
    await fleet.delete(SECRET, "a-app-values")
    await harness.environment.proxy.wait_fired(rule)
    await fleet.there(SECRET, "a-app-values")
    await fleet.ready("a-app")


@pytest.mark.criterion("sensitive")
async def test_mappings_that_would_show_a_value_are_refused(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a", secret=PASSWORD)
    marked: dict[str, Any] = {"x": {"column": "active", "sensitive": True}}
    await fleet.registry(extraValueMappings=marked)
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "InvalidMappings")
    assert "'x' cannot be sensitive" in said.message

    # a column that is sensitive once is sensitive always
    twice: dict[str, Any] = {**SENSITIVE, "x": "secret"}
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": twice}})
    await fleet.ready("a-app")
    tenant = await fleet.read(Tenant, "a-app")
    assert tenant.spec.sensitive_variables is not None
    assert tenant.spec.sensitive_variables.names == ["password", "x"]
    await search(harness, PASSWORD, allowed=own_secrets(fleet, "a"))


@pytest.mark.criterion("sensitive")
async def test_a_foreign_secret_of_that_name_is_in_the_way_and_stays(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    theirs = {"name": "a-app-values", "namespace": fleet.namespace}
    foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": theirs, "data": {"k": "dg=="}}
    await harness.client.create(foreign)
    fleet.row("a", secret=PASSWORD)
    await fleet.registry(extraValueMappings=SENSITIVE)
    await fleet.template(secrets=[credentials()])
    said = await fleet.until(
        TenantRegistry, "registry", "TenantsSynced", "False", "TenantsNotWritten"
    )
    assert "a Secret 'a-app-values' is in the way" in said.message
    assert (await fleet.get(SECRET, "a-app-values"))["data"] == {"k": "dg=="}
    await fleet.delete(SECRET, "a-app-values")
    await fleet.ready("a-app")


async def test_a_traceback_in_the_log_shows_no_variables() -> None:
    for format_ in ("console", "json"):
        stream = io.StringIO()
        logger = make_logger(format=format_, stream=stream)

        def fails() -> None:
            password = "".join(reversed(PASSWORD))
            raise RuntimeError(f"a bug, {len(password)}")

        try:
            fails()
        except RuntimeError:
            logger.exception("A bug")
        assert "a bug, 18" in stream.getvalue()
        assert PASSWORD[::-1] not in stream.getvalue()

"""Bad input gets a clear condition, loses nothing, and stops nobody else.

Every test has neighbours that are well, and shows that they go on.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import subprocess
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupVersionKind, RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.client.errors import Invalid
from ctrlruntime.envtest.proxy import Cut, Fail, Match
from internal.tenancy.objects import children
from tests.mariadb import MariaDB
from tests.tenancy.fleet import Fleet, Kind
from tests.tenancy.harness import CONFIG_MAP, TenancyHarness, config_map, mapping

pytestmark = pytest.mark.asyncio(loop_scope="module")

CRD = mapping("apiextensions.k8s.io/v1", "CustomResourceDefinition")
GOOD = config_map("good", "{{ .uid }}-{{ .templateRef }}")


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def entry(spec: dict[str, Any], **fields: object) -> dict[str, Any]:
    """A template entry of any manifest."""
    return {"id": "bad", "nameTemplate": "{{ .uid }}-{{ .templateRef }}-bad", "spec": spec} | fields


def nameless(spec: dict[str, Any]) -> dict[str, Any]:
    """A template entry that says nothing about the object's name."""
    return {"id": "bad", "spec": spec}


def text(template: str) -> dict[str, Any]:
    """A ConfigMap with one template in its data."""
    return entry({"apiVersion": "v1", "kind": "ConfigMap", "data": {"k": template}})


# -- templates -----------------------------------------------------------------------------------

CM = {"apiVersion": "v1", "kind": "ConfigMap"}
WRONG_IN_THEMSELVES: dict[str, tuple[dict[str, Any], str]] = {
    "no-kind": (entry({"apiVersion": "v1"}), "kind"),
    "no-version": (entry({"kind": "ConfigMap"}), "apiVersion"),
    "templated-kind": (
        entry({"apiVersion": "v1", "kind": "{{ .planId }}"}),
        "may not be templates",
    ),
    "no-name": (nameless(CM), "neither nameTemplate nor spec.metadata.name"),
    "unclosed": (text("{{ .uid "), "bad: "),
    "unclosed-block": (text("{% if uid %}x"), "bad: "),
    "unknown-filter": (text("{{ .uid | frobnicate }}"), "frobnicate"),
    "unknown-in-name": (entry(CM, nameTemplate="{{ .uid | frobnicate }}"), "frobnicate"),
    "malformed-name": (entry(CM, nameTemplate="{{ .uid | }}"), "bad: "),
    "no-such-dependency": (entry(CM, dependIds=["nobody"]), "nobody"),
    "self": (entry(CM, dependIds=["bad"]), "circular dependency detected: bad -> bad"),
    "same-id": (entry(CM, id="good"), "duplicate resource IDs found: good"),
    "ignore-fields": (entry(CM, ignoreFields=["$..["]), "bad: "),
}
WRONG_FOR_A_ROW: dict[str, tuple[dict[str, Any], str]] = {
    "unknown-kind": (entry({"apiVersion": "x.io/v1", "kind": "Widget"}), "does not serve x.io/v1"),
    "wrong-type": (entry({**CM, "data": ["a", "list"]}), ""),
    "unknown-field": (entry({**CM, "dta": {"k": "v"}}), "dta"),
    "empty-name": (entry(CM, nameTemplate="{{ .planId | trunc 0 }}"), "name"),
    "bad-name": (entry(CM, nameTemplate="{{ .uid | upper }}_X"), ""),
    "unknown-variable": (text("{{ .nowhere }}"), "nowhere"),
    "nested-ranges": (
        text("{% for i in range(99999) %}{% for j in range(99999) %}x{% endfor %}{% endfor %}"),
        "",
    ),
    "huge-string": (text("{{ 'x' | repeat 999999999 }}"), ""),
    "huge-product": (text("{{ 'x' * 999999999 }}"), ""),
    "power": (text("{{ 9 ** 9 ** 9 ** 9 }}"), ""),
    "twins": (entry(CM, nameTemplate="{{ .uid }}-{{ .templateRef }}"), "same object"),
}


@pytest.mark.criterion("bad-template")
async def test_a_template_that_is_wrong_in_itself_is_said_to_be_and_not_rolled_out(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template("fine", configMaps=[GOOD])
    for name, (resource, _) in WRONG_IN_THEMSELVES.items():
        lists: dict[str, Any] = {"manifests": [GOOD, resource]}
        if name == "same-id":  # one id in two lists; within one list the API server refuses it
            lists = {"manifests": [resource], "configMaps": [GOOD]}
        await fleet.template(name, **lists)
    await fleet.ready("a-fine")
    for name, (_, word) in WRONG_IN_THEMSELVES.items():
        reason = "DependencyCycle" if name == "self" else "ValidationFailed"
        said = await fleet.until(TenantTemplate, name, "Valid", "False", reason)
        assert word in said.message, (name, said.message)
        assert "Traceback" not in said.message
    fleet.row("b")
    await fleet.ready("b-fine")
    assert await fleet.tenants() == ["a-fine", "b-fine"]


@pytest.mark.criterion("bad-template")
async def test_an_empty_name_is_as_good_as_none(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    await fleet.registry()
    await fleet.template(manifests=[GOOD, entry(CM, nameTemplate="")])
    said = await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    assert "neither nameTemplate nor spec.metadata.name" in said.message


@pytest.mark.criterion("bad-template")
async def test_a_template_that_turns_bad_leaves_its_tenants_as_they_are(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[GOOD])
    await fleet.ready("a-app")
    await fleet.template(configMaps=[text("{{ .uid | frobnicate }}")])
    await fleet.until(TenantTemplate, "app", "Valid", "False", "ValidationFailed")
    fleet.row("b")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "False", "TenantsNotWritten")
    assert await fleet.tenants() == ["a-app"]
    assert await fleet.get(CONFIG_MAP, "a-app") is not None
    await fleet.template(configMaps=[GOOD])
    await fleet.ready("a-app", "b-app")


@pytest.mark.criterion("bad-template")
async def test_a_manifest_that_a_row_makes_wrong_fails_alone(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    for name, (resource, _) in WRONG_FOR_A_ROW.items():
        await fleet.template(name, manifests=[GOOD, resource])
    for name, (_, word) in WRONG_FOR_A_ROW.items():
        said = await fleet.until(Tenant, f"a-{name}", "Ready", "False", "ResourcesFailed")
        assert word in said.message, (name, said.message)
        tenant = await fleet.read(Tenant, f"a-{name}")
        assert tenant.status.failed_resource_ids == ["bad"], name
        assert tenant.status.ready_resources == 1, name
        assert await fleet.get(CONFIG_MAP, f"a-{name}") is not None, name
    fleet.row("b", plan="pro")
    await fleet.template("fine", configMaps=[GOOD])
    await fleet.ready("a-fine", "b-fine")


@pytest.mark.criterion("bad-template")
async def test_a_kind_known_from_elsewhere_that_the_server_lacks_blocks_no_other(
    harness: TenancyHarness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built-in kinds need no discovery, and an older server does not have them all."""
    monkeypatch.setattr(children, "FIRST_TIMEOUT", 300.0)  # nothing is waited for
    gadget = RESTMapping(
        GroupVersionKind("example.com", "v1", "Gadget"), plural="gadgets", namespaced=True
    )
    assert harness.manager is not None
    harness.manager.live_client.mapper.add(gadget)
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    made = entry({"apiVersion": "example.com/v1", "kind": "Gadget"})
    await fleet.template(manifests=[GOOD, made])
    said = await fleet.until(Tenant, "a-app", "Ready", "False", "ResourcesFailed")
    assert "the server does not serve example.com/v1 Gadget" in said.message
    assert await fleet.get(CONFIG_MAP, "a-app") is not None
    await harness.idle()
    await harness.environment.install_crds(definition(gadget))
    await fleet.ready("a-app")
    assert await fleet.get(gadget, "a-app-bad") is not None


def definition(mapping: RESTMapping) -> dict[str, Any]:
    """A custom kind of any shape."""
    group, kind = mapping.gvk.group, mapping.gvk.kind
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {"name": "v1", "served": True, "storage": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{mapping.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": mapping.plural, "singular": kind.lower(), "kind": kind},
            "versions": [version | {"schema": {"openAPIV3Schema": anything}}],
        },
    }


@pytest.mark.criterion("bad-template")
async def test_what_the_schema_forbids_never_gets_in(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    for fields in (
        {"creationPolicy": "Sometimes"},
        {"timeoutSeconds": 0},
        {"id": "a@b"},
        {"spec": "text"},
    ):
        with pytest.raises(Invalid):
            await fleet.template(configMaps=[{**GOOD, **fields}])
    for spec in (
        {"source": {"type": "oracle"}},
        {"valueMappings": {"uid": "uid"}},
        {"extraValueMappings": {"x": {"sensitive": True}}},
    ):
        with pytest.raises(Invalid):
            await fleet.registry(**spec)


@pytest.mark.criterion("bad-template")
@pytest.mark.criterion("FAULT-B34")
async def test_what_the_rules_forbid_never_gets_in(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    for source in ({"type": "mysql"}, {**fleet.source(), "syncInterval": "0s"}):
        with pytest.raises(Invalid):
            await fleet.registry(source=source)


# -- rows ------------------------------------------------------------------------------------------


@pytest.mark.criterion("bad-rows")
@pytest.mark.matrix
@pytest.mark.criterion("FAULT-B11", "FAULT-B34")
async def test_rows_that_cannot_be_tenants_are_counted_and_named(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("ok", "twice", "grows")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm", {"plan": "{{ .planId }}"})])
    await fleet.ready("ok-app", "twice-app", "grows-app")
    fleet.add_row(None)
    fleet.add_row("")
    fleet.add_row("twice", plan="other")
    for uid in ("Upper", "under_score", "a@b", "-dash", "x" * 64, "sp ace", "ünï"):
        fleet.add_row(uid)
    fleet.row("grows", plan="x" * (1024 * 1024))
    fleet.row("maybe", active="perhaps")
    fleet.row("two", active=2)
    said = await fleet.until(
        TenantRegistry, "registry", "RowsValid", "False", "InvalidRows", message="TooLarge"
    )
    for word in (
        "2 rows with MissingUid",
        "7 rows with IllegalUid",
        "2 rows with DuplicateUid (uid 'twice' in 2 rows)",
        "1 row with ValueTooLarge (uid 'grows' ",
        "2 rows with UnknownActivation (uid 'maybe' 'perhaps', uid 'two' '2')",
    ):
        assert word in said.message
    assert "xxxxxxxxxxxxxxxx" * 8 not in said.message
    rows = (await fleet.read(TenantRegistry, "registry")).status.rows
    assert (rows.total, rows.active, rows.inactive, rows.invalid) == (15, 1, 0, 14)

    # nothing was lost: a row that is there but unusable keeps its tenant, and the others go on
    fleet.row("late")
    await fleet.ready("late-app")
    assert await fleet.tenants() == ["grows-app", "late-app", "ok-app", "twice-app"]
    grown = await fleet.get(CONFIG_MAP, "grows-cm")
    assert grown["data"] == {"plan": "basic"}
    fleet.row("grows", plan="pro")
    await fleet.there(CONFIG_MAP, "grows-cm", lambda seen: seen["data"] == {"plan": "pro"})


@pytest.mark.criterion("bad-rows")
@pytest.mark.matrix
@pytest.mark.criterion("FAULT-B11")
async def test_two_rows_that_want_one_name_are_reported_and_the_first_keeps_it(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a-b")
    await fleet.registry()
    await fleet.template("c", configMaps=[config_map("cm", "{{ .uid }}.{{ .templateRef }}")])
    await fleet.ready("a-b-c")
    await fleet.template("b-c", configMaps=[config_map("cm", "{{ .uid }}.{{ .templateRef }}")])
    fleet.row("a")
    said = await fleet.until(
        TenantRegistry, "registry", "RowsValid", "False", "InvalidRows", message="gets no tenant"
    )
    assert "uid 'a' with template 'b-c' gets no tenant" in said.message
    assert "'a-b-c' belongs to uid 'a-b' with template 'c'" in said.message
    await fleet.ready("a-c", "a-b-b-c")
    assert (await fleet.read(Tenant, "a-b-c")).spec.uid == "a-b"

    # the name is free once its holder has gone
    fleet.row("a-b", active=0)
    await fleet.there(CONFIG_MAP, "a.b-c")
    await fleet.until(TenantRegistry, "registry", "RowsValid", "True", "AllRowsValid")
    assert (await fleet.read(Tenant, "a-b-c")).spec.uid == "a"


# -- the guard ---------------------------------------------------------------------------------------


@pytest.mark.criterion("guard")
@pytest.mark.matrix
@pytest.mark.criterion("FAULT-B2")
async def test_the_word_for_deletions_counts_once(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c", "d", "e")
    await fleet.registry()
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready("a-app", "e-app")
    fleet.sql("UPDATE tenants SET active = 0 WHERE uid IN ('a', 'b', 'c')")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions")
    assert (await fleet.event("TooManyDeletions"))["type"] == "Warning"

    await fleet.allow_delete("3")  # a number: nothing happens but an event about it
    assert "16 hex digits, not '3'" in (await fleet.event("InvalidAnnotation"))["note"]
    await fleet.allow_delete("0123456789abcdef")  # another set
    await fleet.approve("approves another set (0123456789abcdef)")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False", "NothingHeld")
    await harness.eventually(fleet.tenants, lambda seen: seen == ["d-app", "e-app"])
    annotations = (await fleet.read(TenantRegistry, "registry")).metadata.annotations or {}
    assert "tenancy.ctrlruntime.dev/allow-delete" not in annotations

    fleet.sql("DELETE FROM tenants")  # used up
    held = await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "EmptyResult")
    assert "2 of 2 tenants would be deleted" in held.message
    assert await fleet.tenants() == ["d-app", "e-app"]


@pytest.mark.criterion("guard")
@pytest.mark.matrix
async def test_the_guard_does_as_its_options_say(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    uids = [f"u{number}" for number in range(10)]
    fleet.rows(*uids)
    await fleet.registry(deletionGuard={"maxDeletePercent": 50, "alwaysAllowedRows": 0})
    await fleet.template(configMaps=[config_map("cm", "{{ .uid }}-cm")])
    await fleet.ready(*(f"{uid}-app" for uid in uids))
    fleet.sql("DELETE FROM tenants WHERE uid IN ('u0', 'u1', 'u2', 'u3', 'u4')")
    await fleet.gone(Tenant, "u4-app")
    fleet.sql("DELETE FROM tenants WHERE uid != 'u9'")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "TooManyDeletions")
    assert len(await fleet.tenants()) == 5

    options = {"deletionGuard": {"maxDeletePercent": 0, "alwaysAllowedRows": 0}}
    fleet.rows("u5", "u6", "u7")  # one is gone, and even that is too many
    await fleet.patch(TenantRegistry, "registry", {"spec": options})
    await fleet.until(
        TenantRegistry, "registry", "DeletionsHeld", "True", message="1 of 10 rows are gone"
    )
    options = {"deletionGuard": {"maxDeletePercent": 100, "allowEmpty": False}}
    await fleet.patch(TenantRegistry, "registry", {"spec": options})
    await fleet.gone(Tenant, "u8-app")
    fleet.sql("DELETE FROM tenants")
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", "EmptyResult")
    assert len(await fleet.tenants()) == 4
    options = {"deletionGuard": {"allowEmpty": True}}
    await fleet.patch(TenantRegistry, "registry", {"spec": options})
    await harness.eventually(fleet.tenants, lambda seen: seen == [])
    await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "False", "NothingHeld")


# -- objects that our types refuse ---------------------------------------------------------------------


@contextlib.asynccontextmanager
async def without_schema(harness: TenancyHarness, kind: Kind) -> AsyncIterator[None]:
    """Let the API server take anything for a while, as with a definition of another release."""
    name = kind.mapping().resource
    before = await harness.client.get(CRD, name)
    version = dict(before["spec"]["versions"][0])
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await put_schema(harness, name, version, anything)
    try:
        yield
    finally:
        await put_schema(harness, name, version, version["schema"]["openAPIV3Schema"])


async def put_schema(
    harness: TenancyHarness, name: str, version: dict[str, Any], schema: dict[str, Any]
) -> None:
    versions = [{**version, "schema": {"openAPIV3Schema": schema}}]
    await harness.client.patch(CRD, name, {"spec": {"versions": versions}}, type=PatchType.MERGE)


@pytest.mark.criterion("unreadable")
async def test_a_registry_that_cannot_be_read_stops_no_other(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[GOOD])
    await fleet.ready("a-app")
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": {"n": 5}}})
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "InvalidSpec")
    assert "extraValueMappings.n" in said.message
    await fleet.annotate(TenantTemplate, "app", reconcile_now="x")
    said = await fleet.until(TenantTemplate, "app", "Valid", "False", "RegistryInvalid")
    assert "'registry'" in said.message
    await fleet.delete(CONFIG_MAP, "a-app")  # its tenants are looked after all the same
    await fleet.there(CONFIG_MAP, "a-app")
    await neighbour_converges(harness)
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": {"n": "plan"}}})
    await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")
    await fleet.until(TenantTemplate, "app", "Valid", "True", "ValidationPassed")

    # it can be deleted all the same
    await fleet.patch(TenantRegistry, "registry", {"spec": {"extraValueMappings": {"n": 5}}})
    await fleet.until(TenantRegistry, "registry", "Ready", "False", "InvalidSpec")
    await fleet.delete(TenantRegistry, "registry")
    await fleet.gone(TenantRegistry, "registry")
    await fleet.gone(Tenant, "a-app")


@pytest.mark.criterion("unreadable")
@pytest.mark.parametrize(
    ("source", "word"),
    [
        ({"type": "mysql", "syncInterval": "1s"}, "spec.source.mysql is missing"),
        ({"syncInterval": "0s"}, "spec.source.syncInterval: must be at least 1s"),
        ({"syncInterval": "99999999h"}, "spec.source.syncInterval: '99999999h' is longer than"),
    ],
    ids=["no-database", "no-time", "for-ever"],
)
async def test_what_no_rule_of_the_definition_kept_out_is_reported_and_not_tried(
    harness: TenancyHarness, source: dict[str, Any], word: str
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[GOOD])
    await fleet.ready("a-app")
    async with without_schema(harness, TenantRegistry):
        given = {"source": fleet.source() | source}
        await harness.eventually(lambda: written(fleet, TenantRegistry, "registry", given))
        await fleet.until(TenantRegistry, "registry", "Ready", "False", "InvalidSpec", message=word)
        await harness.idle()
        assert await fleet.tenants() == ["a-app"]
        await fleet.patch(TenantRegistry, "registry", {"spec": {"source": fleet.source()}})
        await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")


@pytest.mark.criterion("unreadable")
async def test_a_template_that_cannot_be_read_keeps_its_tenants_and_stops_no_other(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    await fleet.registry()
    await fleet.template(configMaps=[GOOD])
    await fleet.template("other", configMaps=[GOOD])
    await fleet.ready("a-app", "a-other")
    async with without_schema(harness, TenantTemplate):
        shredded = [{**GOOD, "deletionPolicy": "Shred"}]
        await harness.eventually(
            lambda: written(fleet, TenantTemplate, "app", {"configMaps": shredded})
        )
        said = await fleet.until(TenantTemplate, "app", "Valid", "False", "InvalidSpec")
        assert "configMaps.0.deletionPolicy" in said.message
        assert "Shred" not in said.message
        fleet.row("b")
        await fleet.ready("b-other")
        assert await fleet.tenants() == ["a-app", "a-other", "b-other"]
        await neighbour_converges(harness)
        await fleet.patch(TenantTemplate, "app", {"spec": {"configMaps": [GOOD]}})
        await fleet.until(TenantTemplate, "app", "Valid", "True", "ValidationPassed")
        await fleet.ready("b-app")


@pytest.mark.criterion("unreadable")
async def test_a_tenant_that_cannot_be_read_reports_it_and_can_be_deleted(
    harness: TenancyHarness,
) -> None:
    fleet = await Fleet.make(harness)
    spec = {"uid": "x", "templateRef": "none", "configMaps": [config_map("cm", "x-cm")]}
    await fleet.create(Tenant, "x", spec)
    await fleet.ready("x")
    async with without_schema(harness, Tenant):
        await harness.eventually(lambda: written(fleet, Tenant, "x", {"configMaps": "none"}))
        said = await fleet.until(Tenant, "x", "Ready", "False", "InvalidSpec")
        assert "configMaps" in said.message
        assert await fleet.get(CONFIG_MAP, "x-cm") is not None
        await neighbour_converges(harness)
        await fleet.delete(Tenant, "x")
        await fleet.gone(Tenant, "x")
        await fleet.gone(CONFIG_MAP, "x-cm")


async def written(fleet: Fleet, kind: Kind, name: str, spec: dict[str, Any]) -> bool:
    """Try to write what the schema forbade until just now."""
    with contextlib.suppress(Invalid):
        await fleet.patch(kind, name, {"spec": spec})
        return True
    return False


async def neighbour_converges(harness: TenancyHarness) -> None:
    """A fleet with a registry of its own gets its first tenant."""
    other = await Fleet.make(harness)
    other.row("n")
    await other.registry()
    await other.template(configMaps=[GOOD])
    await other.ready("n-app")


# -- databases that fail -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def database() -> Iterator[MariaDB]:
    """A server that tests may kill."""
    with MariaDB.start() as database:
        yield database


class MySQLFleet(Fleet):
    """A fleet whose table is in MariaDB."""

    __slots__ = ("database",)

    database: MariaDB

    @classmethod
    async def on(cls, harness: TenancyHarness, database: MariaDB) -> MySQLFleet:
        """A new namespace, a database of its name with three rows, a user, its Secret."""
        plain = await Fleet.make(harness)
        fleet = cls(harness, plain.namespace)
        fleet.database = database
        await asyncio.to_thread(
            database.execute,
            f"CREATE DATABASE `{fleet.schema}`",
            f"CREATE TABLE `{fleet.schema}`.tenants (uid TEXT, url TEXT, active INT, plan TEXT)",
            f"INSERT INTO `{fleet.schema}`.tenants VALUES ('a', '', 1, ''), ('b', '', 1, '')",
            f"CREATE USER `{fleet.schema}`@'%' IDENTIFIED BY 'right'",
            f"GRANT SELECT ON `{fleet.schema}`.* TO `{fleet.schema}`@'%'",
        )
        return fleet

    @property
    def schema(self) -> str:
        return self.namespace

    async def password(self, word: str, *, labelled: bool = True) -> None:
        """Create or change the Secret with the password."""
        data = {"password": base64.b64encode(word.encode()).decode()}
        labels = {"tenancy.ctrlruntime.dev/database": "true"} if labelled else {}
        metadata = {"name": "database", "namespace": self.namespace, "labels": labels}
        secret = {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data}
        await self.harness.client.apply(secret, field_manager="test", force=True)

    def mysql(self, **fields: object) -> dict[str, Any]:
        """`spec.source`; an hour between queries, so that what comes sooner has another cause."""
        mysql = {
            "host": self.database.host,
            "port": self.database.port,
            "username": self.schema,
            "passwordRef": {"name": "database", "key": "password"},
            "database": self.schema,
            "table": "tenants",
            "connectTimeoutSeconds": 60,
            **fields,
        }
        return {"type": "mysql", "mysql": mysql, "syncInterval": "1h"}

    async def start(self, **fields: object) -> None:
        """A registry and a template."""
        mappings = {"uid": "uid", "activate": "active"}
        await self.registry(
            source=self.mysql(**fields), valueMappings=mappings, extraValueMappings={}
        )
        await self.template(configMaps=[GOOD])

    async def look(self, value: str) -> None:
        """Ask for a query now."""
        await self.annotate(TenantRegistry, "registry", reconcile_now=value)

    async def look_again(self, value: str) -> None:
        """Ask for a query and wait for it. If it fails, the next comes later than it would have."""
        await self.look(value)

        async def handled() -> bool:
            found = await self.read(TenantRegistry, "registry")
            return bool(found.status.last_handled_reconcile == value)

        await self.harness.eventually(handled)

    async def execute(self, *statements: str) -> None:
        await asyncio.to_thread(self.database.execute, *statements, database=self.schema)


@pytest.mark.criterion("bad-database")
@pytest.mark.matrix
async def test_credentials_that_are_missing_or_wrong_are_asked_for_and_seen_at_once(
    harness: TenancyHarness, database: MariaDB
) -> None:
    fleet = await MySQLFleet.on(harness, database)
    await fleet.start()
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "CredentialsUnavailable")
    assert "'database'" in said.message
    await fleet.password("wrong-word-9")
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "AccessDenied")
    assert "wrong-word-9" not in said.message
    event = await fleet.event("DatabaseQueryFailed")
    assert event["type"] == "Warning"
    await neighbour_converges(harness)
    for number in range(7):
        await fleet.look_again(f"look-{number}")
    await fleet.password("right")  # seen by the watch: the next query is two minutes away
    await fleet.ready("a-app", "b-app")

    # rotation while it runs: the old password is refused, the new one is taken up at once
    await fleet.execute(f"SET PASSWORD FOR `{fleet.schema}`@'%' = PASSWORD('rotated')")
    await fleet.execute("INSERT INTO tenants VALUES ('c', '', 1, '')")
    await fleet.password("rotated")
    await fleet.ready("c-app")
    await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")


@pytest.mark.criterion("H-D2")
@pytest.mark.matrix
async def test_h_d2_a_secret_without_the_label_is_not_read_and_the_label_is_seen_at_once(
    harness: TenancyHarness, database: MariaDB
) -> None:
    fleet = await MySQLFleet.on(harness, database)
    await fleet.password("right", labelled=False)
    await fleet.start()
    seen = await fleet.until(TenantRegistry, "registry", "Ready", "False", "CredentialsUnavailable")
    label = (
        f"kubectl -n {fleet.namespace} label secret database tenancy.ctrlruntime.dev/database=true"
    )
    assert label in seen.message
    await fleet.password("right")
    await fleet.ready("a-app", "b-app")  # an hour before the next query
    await fleet.password("right", labelled=False)
    await fleet.until(TenantRegistry, "registry", "Ready", "False", "CredentialsUnavailable")
    assert await fleet.tenants() == ["a-app", "b-app"]


@pytest.mark.criterion("bad-database")
@pytest.mark.matrix
async def test_a_database_that_is_slow_or_plain_is_named_as_such(
    harness: TenancyHarness, database: MariaDB
) -> None:
    fleet = await MySQLFleet.on(harness, database)
    await fleet.password("right")
    await fleet.start(tls={"mode": "Required"})
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "TLSFailed")
    assert "TLS" in said.message
    await fleet.patch(TenantRegistry, "registry", {"spec": {"source": {"mysql": {"tls": None}}}})
    await fleet.ready("a-app", "b-app")
    hasty = {"spec": {"source": {"mysql": {"readTimeoutSeconds": 1}}}}
    await fleet.patch(TenantRegistry, "registry", hasty)
    with contextlib.closing(database._administrator(fleet.schema)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("LOCK TABLES tenants WRITE")
        await fleet.look("slow")
        said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "DatabaseTimeout")
        assert "within 1 s" in said.message
    await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")
    assert await fleet.tenants() == ["a-app", "b-app"]


def revive(database: MariaDB) -> None:
    """Start it again, on the same data and port."""
    database.process = subprocess.Popen(
        database.process.args,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


@pytest.mark.criterion("bad-database")
@pytest.mark.matrix
@pytest.mark.criterion("FAULT-B16")
async def test_a_table_that_vanishes_and_a_database_that_dies_lose_nothing(
    harness: TenancyHarness, database: MariaDB
) -> None:
    fleet = await MySQLFleet.on(harness, database)
    await fleet.password("right")
    await fleet.start()
    await fleet.ready("a-app", "b-app")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")

    await fleet.execute("RENAME TABLE tenants TO away")
    await fleet.look("gone")
    said = await fleet.until(TenantRegistry, "registry", "Ready", "False", "UnknownTable")
    assert "tenants" in said.message
    await fleet.execute("RENAME TABLE away TO tenants")
    await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")

    database.process.kill()
    database.process.wait()
    try:
        await fleet.look("dead")
        await fleet.until(TenantRegistry, "registry", "Ready", "False", "DatabaseUnreachable")
        registry = await fleet.read(TenantRegistry, "registry")
        counts = registry.status.desired, registry.status.ready, registry.status.rows.active
        assert counts == (2, 2, 2), "the last good counts stay"
        assert await fleet.tenants() == ["a-app", "b-app"]
        await fleet.delete(CONFIG_MAP, "a-app")
        await fleet.there(CONFIG_MAP, "a-app")
        await neighbour_converges(harness)
    finally:
        revive(database)
    await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")
    await fleet.execute("INSERT INTO tenants VALUES ('c', '', 1, '')")
    await fleet.look("back")
    await fleet.ready("c-app")
    notes = [event["note"] for event in await fleet.events("DatabaseQueryFailed")]
    assert any("DatabaseUnreachable" in note for note in notes)


@pytest.mark.criterion("bad-database")
@pytest.mark.matrix
async def test_a_query_that_fails_for_its_own_reasons_reports_it(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    fleet.row("a")
    broken = "SELECT uid, url, active, json_extract('{', '$') AS plan FROM tenants"
    fleet.sql(f"CREATE VIEW broken AS {broken}")
    await fleet.registry(source=fleet.source(table="broken"), extraValueMappings={"p": "plan"})
    await fleet.until(TenantRegistry, "registry", "Ready", "False", "QueryFailed")
    fleet.sql("DROP VIEW broken")
    fleet.sql("CREATE VIEW broken AS SELECT * FROM tenants")
    await fleet.until(TenantRegistry, "registry", "Ready", "True", "DatabaseConnected")


# -- writes that fail ------------------------------------------------------------------------------------


@pytest.mark.criterion("writes-that-fail")
@pytest.mark.parametrize("fault", [Fail(code=500), Cut()], ids=["refused", "no-answer"])
@pytest.mark.criterion("FAULT-B25")
async def test_tenants_that_could_not_be_written_are_tried_again_before_the_next_query(
    harness: TenancyHarness, fault: Fail | Cut
) -> None:
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c")
    match = Match(
        user="manager",
        verb="write",
        resource="tenants.tenancy.ctrlruntime.dev",
        namespace=fleet.namespace,
    )
    proxy = harness.environment.proxy
    rule = proxy.add(fault, match, times=None)
    await fleet.registry(source={**fleet.source(), "syncInterval": "1h"})
    await fleet.template(configMaps=[GOOD])
    if isinstance(fault, Fail):
        said = await fleet.until(
            TenantRegistry, "registry", "TenantsSynced", "False", "TenantsNotWritten"
        )
        assert "injected" in said.message
    await asyncio.wait_for(proxy.wait_fired(rule, 3), 90)
    await neighbour_converges(harness)
    proxy.remove(rule)
    await fleet.ready("a-app", "b-app", "c-app")
    await fleet.until(TenantRegistry, "registry", "TenantsSynced", "True", "Synced")

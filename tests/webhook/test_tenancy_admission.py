"""Admission of registries, templates and tenants, clause by clause: the message names field, id and the fix."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import AsyncIterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, Manifest
from ctrlruntime.client.client import Client
from ctrlruntime.client.errors import Invalid
from ctrlruntime.client.openapi import OpenAPISchemas
from ctrlruntime.envtest import Environment
from ctrlruntime.envtest.local_webhooks import LocalWebhooks
from ctrlruntime.generate import webhook_configurations
from manager.controllers import tenancy
from manager.controllers.tenancy import add_tenancy, webhooks
from manager.controllers.tenancy_options import TenancyOptions
from tests.support.manager_harness import make_manager
from tests.support.waiting import eventually
from tests.webhook.patient import SECONDS, patient

KINDS = (TenantRegistry, TenantTemplate, Tenant)
GROUP = "tenancy.ctrlruntime.dev"
WIDGETS = GroupVersionKind("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@dataclass(frozen=True)
class Admission:
    """A namespace of a server that calls a manager's webhooks, and what its answers warn of."""

    client: Client
    namespace: str
    warnings: list[str]

    def manifest(self, kind: str, name: str, spec: Manifest, **metadata: object) -> Manifest:
        place = {"name": name, "namespace": self.namespace, **metadata}
        return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": place, "spec": spec}

    def template(self, *resources: Manifest, **lists: object) -> Manifest:
        spec = {"registryId": "people", "manifests": list(resources), **lists}
        return self.manifest("TenantTemplate", "web", spec)

    def tenant(self, *resources: Manifest, **spec: object) -> Manifest:
        return self.manifest(
            "Tenant",
            "by-hand",
            {"uid": "a", "templateRef": "none", "manifests": list(resources), **spec},
        )

    def registry(self, **spec: object) -> Manifest:
        database = {"host": "db", "username": "u", "database": "d", "table": "t"}
        source = {"type": "mysql", "mysql": database, "syncInterval": "24h"}
        mappings = {"uid": "id", "activate": "active"}
        whole = {"source": source, "valueMappings": mappings, **spec}
        return self.manifest("TenantRegistry", "people", whole)

    async def accept(self, manifest: Manifest) -> list[str]:
        """What the server warns of while it accepts an object."""
        self.warnings.clear()
        await self.client.create(manifest, dry_run=True)
        return list(self.warnings)

    async def refuse(self, manifest: Manifest) -> dict[str, str]:
        """The messages of a refusal by field."""
        with pytest.raises(Invalid) as caught:
            await self.client.create(manifest, dry_run=True)
        assert "denied the request" in caught.value.message
        return {cause.field: cause.message for cause in caught.value.causes}


@pytest.fixture
async def admission(
    environment: Environment, hooks: LocalWebhooks, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Admission]:
    # A schema that a busy machine serves too late would be unknown, and nothing refused for it. New kinds are known soon.
    patient_schemas = partial(OpenAPISchemas, timeout=SECONDS / 2, fresh_seconds=0.1)
    monkeypatch.setattr(tenancy, "OpenAPISchemas", patient_schemas)
    namespace = f"admit-{secrets.token_hex(4)}"
    admin, seen = environment.client(), list[str]()
    await admin.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
    await environment.install_crds(*KINDS)
    await hooks.install(*patient(webhook_configurations(webhooks(), validating_name=namespace)))
    manager = make_manager(environment.config("manager"), webhook=hooks.options)
    kinds = (GroupKind("absent.dev", "Later"), GroupKind(f"{namespace}.dev", "Widget"))
    add_tenancy(manager, TenancyOptions(webhooks=True, allow_kinds=frozenset(kinds)))
    client = Client.connect(environment.config("admin"), on_warning=seen.append)
    made = Admission(client, namespace, seen)
    async with manager.running(), client:

        async def is_called() -> bool:
            broken = made.template({"id": "a", "nameTemplate": "{{ uid ", "spec": config_map()})
            with contextlib.suppress(Invalid):
                await client.create(broken, dry_run=True)
                return False
            return True

        await eventually(is_called)
        yield made
        for kind in (Tenant, TenantTemplate, TenantRegistry):
            for found in await admin.list(kind, namespace=namespace):
                gone = {"metadata": {"finalizers": None}}
                name = found.metadata.name
                await admin.patch(kind, name, gone, namespace=namespace)
                await admin.delete(kind, name, namespace=namespace)
    await admin.delete(GroupVersionKind("", "v1", "Namespace"), namespace)


def config_map(**data: object) -> Manifest:
    return {"apiVersion": "v1", "kind": "ConfigMap", "data": data}


def deployment(container: Manifest | None = None, **spec: object) -> Manifest:
    labels = {"app": "{{ uid }}"}
    pod = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "app", "image": "nginx", **(container or {})}]},
    }
    whole = {"selector": {"matchLabels": labels}, "template": pod, **spec}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": whole}


def entry(name: str, spec: Manifest, **more: object) -> Manifest:
    return {"id": name, "nameTemplate": f"{{{{ uid }}}}-{name}", "spec": spec, **more}


@pytest.mark.criterion("ADMIT-BODIES")
async def test_a_field_that_the_kind_does_not_have_is_refused_with_the_one_that_is_meant(
    admission: Admission,
) -> None:
    wrong = deployment({"imge": "nginx"}, replica=2)
    found = await admission.refuse(admission.template(entry("ok", config_map()), entry("w", wrong)))
    assert set(found) == {
        "spec.manifests[1].spec.spec.replica",
        "spec.manifests[1].spec.spec.template.spec.containers[0].imge",
    }
    replica = found["spec.manifests[1].spec.spec.replica"]
    assert replica.endswith(
        "\"w\": apps/v1 Deployment has no field 'replica' here: write 'replicas'"
    )

    found = await admission.refuse(admission.template(entry("w", deployment(replicas="3"))))
    assert found == {
        "spec.manifests[0].spec.spec.replicas": 'Invalid value: "w": it has to be a whole number, '
        "not text; remove the quotes"
    }
    found = await admission.refuse(admission.template(entry("c", config_map(a=1))))
    assert found["spec.manifests[0].spec.data.a"].endswith(
        "it has to be text, not a number; put it into quotes"
    )


@pytest.mark.criterion("ADMIT-BODIES")
async def test_what_cannot_be_known_of_a_manifest_is_never_refused(admission: Admission) -> None:
    unknown = [
        entry("native", deployment({"resources": "{{ limits | fromJson }}"}, replicas="{{ n }}")),
        entry("whole", {"apiVersion": "apps/v1", "kind": "Deployment", "spec": "{{ all }}"}),
        entry("later", {"apiVersion": "absent.dev/v1", "kind": "Later", "spec": {"any": ["x"]}}),
        entry("version", {"apiVersion": "apps/v9", "kind": "Deployment", "spec": {"x": 1}}),
    ]
    assert await admission.accept(admission.template(*unknown)) == []
    # a merge patch drops what the server does not have: that works, so it is a warning
    dropped = entry("w", deployment(replica=2), patchStrategy="merge")
    (warning,) = await admission.accept(admission.template(dropped))
    assert warning.startswith("spec.manifests[0].spec.spec.replica: w: apps/v1 Deployment")
    # something else may add what is missing
    lacking = {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {}}}
    (warning,) = await admission.accept(admission.template(entry("w", lacking)))
    assert warning.startswith("spec.manifests[0].spec.spec.selector: w: it is required")


@pytest.mark.criterion("ADMIT-BODIES")
async def test_mistakes_in_custom_resources_are_warned_of_once_their_crd_is_there(
    admission: Admission,
) -> None:
    group = f"{admission.namespace}.dev"
    widget = {"apiVersion": f"{group}/v1", "kind": "Widget", "spec": {"sizee": 2}}
    template = admission.template(entry("w", widget))
    assert await admission.accept(template) == []
    await admission.client.create(widget_crd(group))
    try:

        async def is_warned() -> bool:
            (warning, *_) = await admission.accept(template) or [""]
            return warning.endswith("Widget has no field 'sizee' here: write 'size'")

        await eventually(is_warned, timeout=60)
        open_part = {**widget, "spec": {"size": 2, "open": {"any": [1]}}}
        assert await admission.accept(admission.template(entry("w", open_part))) == []
    finally:
        await admission.client.delete(WIDGETS, f"widgets.{group}")


def widget_crd(group: str) -> Manifest:
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {"type": "object", "properties": {"size": {"type": "integer"}, "open": free}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": schema}],
        },
    }


@pytest.mark.criterion("ADMIT-QUANTITY")
async def test_what_is_no_quantity_is_refused(admission: Admission) -> None:
    limits = {"cpu": "half", "memory": "{{ memory }}", "ephemeral-storage": "1Gi"}
    found = await admission.refuse(
        admission.template(entry("w", deployment({"resources": {"limits": limits}})))
    )
    place = "spec.manifests[0].spec.spec.template.spec.containers[0].resources.limits.cpu"
    assert found == {
        place: 'Invalid value: "w": it is no quantity; write for example 500m, 1, 256Mi or 1Gi'
    }


@pytest.mark.criterion("ADMIT-CRON")
async def test_schedules_that_cannot_be_read_are_refused(admission: Admission) -> None:
    pod = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}
    job = {"spec": {"template": {"spec": pod}}}

    def cron(schedule: str) -> Manifest:
        spec = {"schedule": schedule, "jobTemplate": job}
        return entry("n", {"apiVersion": "batch/v1", "kind": "CronJob", "spec": spec})

    found = await admission.refuse(admission.template(cron("61 * * * *")))
    assert (
        "the field for the minute cannot be read" in found["spec.manifests[0].spec.spec.schedule"]
    )
    for fine in ("*/5 * * * *", "@daily", "@every 5m", "0 ? * JAN MON", "{{ when }}"):
        assert await admission.accept(admission.template(cron(fine))) == []

    window = {"schedule": "0 2 * *", "duration": "2h"}
    found = await admission.refuse(admission.registry(maintenanceWindows=[window]))
    ((place, text),) = found.items()
    assert place == "spec.maintenanceWindows"
    assert "has 4 fields, not five" in text


@pytest.mark.criterion("ADMIT-NAMESPACES")
async def test_names_of_namespaces_and_labels_that_can_never_be_used_are_refused(
    admission: Admission,
) -> None:
    found = await admission.refuse(
        admission.template(
            entry("n", config_map(), targetNamespace="No_Namespace"),
            entry("l", config_map(), labelsTemplate={"a b": "x"}),
            entry("v", {**config_map(), "metadata": {"labels": {"ok": "-", "t": "{{ uid }}"}}}),
        )
    )
    assert "prefix/name" in found["spec.manifests[1].labelsTemplate"]
    assert "use at most 63 lower-case letters" in found["spec.manifests[0].targetNamespace"]
    assert "the value of 'ok'" in found["spec.manifests[2].spec.metadata.labels"]
    # for other namespaces the manager's options decide
    foreign = entry("f", config_map(), targetNamespace="kube-system")
    found = await admission.refuse(admission.template(foreign))
    assert "kube-system" in found["spec.manifests[0]"]
    own = entry("o", config_map(), targetNamespace=admission.namespace)
    assert await admission.accept(admission.template(own)) == []


@pytest.mark.criterion("ADMIT-CYCLE")
async def test_a_cycle_is_refused_with_its_path_and_its_fix(admission: Admission) -> None:
    cycle = [
        entry("a", config_map(), dependIds=["b"]),
        entry("b", config_map(), dependIds=["c"]),
        entry("c", config_map(), dependIds=["a"]),
    ]
    found = await admission.refuse(admission.template(entry("x", config_map()), *cycle))
    assert found == {
        "spec.manifests[1]": 'Invalid value: "a": circular dependency detected: a -> b -> c -> a; '
        "remove one of these ids from dependIds"
    }


@pytest.mark.criterion("ADMIT-DUPLICATE")
async def test_ids_that_are_there_twice_or_not_at_all_are_refused(admission: Admission) -> None:
    twice = admission.template(entry("a", config_map()), configMaps=[entry("a", config_map())])
    found = await admission.refuse(twice)
    assert found == {
        "spec.configMaps[0]": 'Invalid value: "a": duplicate resource IDs found: a; give each '
        "resource of the template, in whichever list, an id of its own"
    }
    misspelt = [entry("database", config_map()), entry("b", config_map(), dependIds=["databse"])]
    found = await admission.refuse(admission.template(*misspelt))
    assert found["spec.manifests[1]"].endswith("the template does not have; write 'database'")


@pytest.mark.criterion("ADMIT-VARIABLES")
async def test_variables_without_a_column_are_warned_of_from_both_sides(
    admission: Admission,
) -> None:
    registry = admission.registry(extraValueMappings={"planId": "plan", "region": "region"})
    assert await admission.accept(registry) == []
    await admission.client.create(registry)
    text = "{{ plnId }} {{ region }} {{ other | default('x') }}"

    async def is_warned() -> bool:
        found = await admission.accept(admission.template(entry("a", config_map(a=text))))
        meant = "maps no column to plnId (did you mean planId?): add it to extraValueMappings"
        return found == [f"the registry people {meant}"]

    await eventually(is_warned)
    fine = admission.template(entry("a", config_map(a="{{ planId }} {{ region }}")))
    assert await admission.accept(fine) == []
    await admission.client.create(fine)

    async def loses_a_column() -> bool:
        admission.warnings.clear()
        change = {"spec": {"extraValueMappings": {"region": None}}}
        await admission.client.patch(
            TenantRegistry, "people", change, namespace=admission.namespace, dry_run=True
        )
        return admission.warnings == [
            "the template web reads region, to which spec.extraValueMappings maps no column"
        ]

    await eventually(loses_a_column)


@pytest.mark.criterion("ADMIT-VARIABLES")
async def test_warnings_of_columns_name_those_that_the_table_has(admission: Admission) -> None:
    registry = admission.registry(extraValueMappings={"planId": "plan"})
    # There is no database: paused, the registry keeps the status that is written here.
    registry["metadata"]["annotations"] = {"ctrlruntime.dev/paused": "true"}
    made = await admission.client.create(registry)
    columns = ["id", "active", "plan", "region"]
    status = {"observedGeneration": made["metadata"]["generation"], "columns": columns}
    await admission.client.patch_status(
        TenantRegistry, "people", {"status": status}, namespace=admission.namespace
    )
    template = admission.template(entry("a", config_map(a="{{ region }}")))

    async def is_warned() -> bool:
        found = await admission.accept(template)
        end = "add it to extraValueMappings; the table has the column region"
        return found == [f"the registry people maps no column to region: {end}"]

    await eventually(is_warned)
    (text,) = await admission.accept(admission.template(entry("a", config_map(a="{{ thing }}"))))
    assert text.endswith("add it to extraValueMappings; it has active, id, plan, region")

    admission.warnings.clear()
    change: dict[str, Any] = {"spec": {"extraValueMappings": {"region": "regoin", "Plan": "PLAN"}}}
    await admission.client.patch(
        TenantRegistry, "people", change, namespace=admission.namespace, dry_run=True
    )
    text = "spec.extraValueMappings.region: the table has no column regoin (did you mean region?)"
    assert admission.warnings == [f"{text}; it has active, id, plan, region"]
    admission.warnings.clear()
    change["spec"]["source"] = {"mysql": {"table": "another"}}
    await admission.client.patch(
        TenantRegistry, "people", change, namespace=admission.namespace, dry_run=True
    )
    assert admission.warnings == [], "of another table nothing is known"


@pytest.mark.criterion("ADMIT-PATHS")
async def test_paths_that_cannot_be_read_are_refused(admission: Admission) -> None:
    ignoring = entry("i", config_map(), ignoreFields=["$.data["])
    waiting = entry("r", deployment(), readyWhen=[{"jsonPath": "$..status"}])
    found = await admission.refuse(admission.template(ignoring, waiting))
    assert "write for example $.spec.replicas" in found["spec.manifests[0]"]
    assert "write for example $.status.conditions" in found["spec.manifests[1]"]


@pytest.mark.criterion("ADMIT-REFUSED")
async def test_a_refused_function_reports_what_to_do_instead(admission: Admission) -> None:
    for written, instead in (
        ("{{ randAlphaNum 8 }}", "keep the value in a column, or in a Secret"),
        ("{{ uid | lookup }}", "map the value to a column"),
        ("{{ env `HOME` }}", "the workload read it from a ConfigMap or Secret"),
    ):
        found = await admission.refuse(admission.template(entry("a", config_map(a=written))))
        ((place, text),) = found.items()
        assert place == "spec.manifests[0]"
        assert '"a": data.a: ' in text
        assert instead in text


@pytest.mark.criterion("ADMIT-LOSSY")
async def test_a_conversion_that_loses_what_is_written_out_is_warned_of(
    admission: Admission,
) -> None:
    lossy = entry(
        "a", config_map(n='{{ "three" | int }}', m='{{ "3" | int }}', u="{{ uid | int }}")
    )
    assert await admission.accept(admission.template(lossy)) == [
        "spec.manifests[0].spec: data.n: int: a value that is not a number became 0"
    ]


@pytest.mark.criterion("ADMIT-TENANT")
async def test_tenants_written_by_hand_are_reviewed_and_those_of_registries_are_not(
    admission: Admission,
) -> None:
    wrong = [entry("a", config_map(), dependIds=["a"]), entry("w", deployment(replica=1))]
    found = await admission.refuse(admission.tenant(*wrong))
    assert set(found) == {"spec.manifests[0]", "spec.manifests[1].spec.spec.replica"}
    found = await admission.refuse(admission.tenant(entry("a", config_map(a="{{ now }}"))))
    assert "have the source give the time as a column" in found["spec"]
    reads = entry("a", config_map(a="{{ pln }} {{ uid }}"))
    assert await admission.accept(admission.tenant(reads, variables={"plan": "x"})) == [
        "spec.variables has no pln (did you mean plan?): add it there"
    ]
    made = admission.tenant(*wrong)
    made["metadata"]["labels"] = {f"{GROUP}/registry": "people"}
    assert await admission.accept(made) == []


@pytest.mark.criterion("ADMIT-REGISTRY")
async def test_registries_that_could_never_be_queried_are_refused(admission: Admission) -> None:
    mappings = {"uid": "x", "bad-name": "y", "secret": {"column": "id", "sensitive": True}}
    with pytest.raises(Invalid) as caught:
        await admission.client.create(admission.registry(extraValueMappings=mappings), dry_run=True)
    texts = [cause.message for cause in caught.value.causes]
    assert {cause.field for cause in caught.value.causes} == {"spec.extraValueMappings"}
    assert len(texts) == 3
    assert any("use letters, digits and '_' only" in text for text in texts)


async def test_schemas_are_fetched_for_reviews_alone_and_once(environment: Environment) -> None:
    """Nothing is fetched before a review, nothing again while the server's documents stay as they are."""
    now = 0.0
    async with environment.client() as client:
        counted = _Counting(client)
        schemas = OpenAPISchemas(counted, lambda: now, timeout=SECONDS)  # type: ignore[arg-type]
        assert counted.paths == []
        first = await schemas.of("apps", "v1")
        assert first is not None
        assert first.of(GroupVersionKind("apps", "v1", "Deployment")) is not None
        assert await schemas.of("absent.dev", "v1") is None
        assert [path.partition("?")[0] for path in counted.paths] == [
            "/openapi/v3",
            "/openapi/v3/apis/apps/v1",
        ]
        now = 3600.0
        assert await schemas.of("apps", "v1") is first
        assert counted.paths[2:] == ["/openapi/v3"]


class _Counting:
    """A transport that remembers the paths of its requests."""

    def __init__(self, client: Client) -> None:
        self._transport = client.transport
        self.paths: list[str] = []

    async def request(self, method: str, path: str, *, timeout: float) -> object:
        self.paths.append(path)
        return await self._transport.request(method, path, timeout=timeout)

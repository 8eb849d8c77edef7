"""What the console's pages show, and what they never do."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import Any

import pytest

from apis.cloud import FleetRollout, Instance, InstanceTerraform
from apis.fleet import FleetConfig
from apis.fleet.fleetconfig import NAME
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from tests.console.harness import INSTANCE, TENANT, Harness, ready, running
from tests.support.waiting import eventually

HOSTILE = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'&"
WORD = "hunter2-c0rrect-h0rse"
"""Stands for what is secret."""


@pytest.fixture
async def console() -> AsyncIterator[Harness]:
    async with running() as harness:
        yield harness


class Tags(HTMLParser):
    """What a page is made of."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def all(self, name: str) -> list[dict[str, str | None]]:
        return [attributes for tag, attributes in self.tags if tag == name]


def words(text: str) -> str:
    """The text of a page's content, in one line."""
    content = text[text.index('<div id="content">') :]
    return " ".join(re.sub(r"<[^>]+>", " ", content).split())


async def test_the_first_page_counts_by_kind_version_and_template_failures_first(
    console: Harness,
) -> None:
    for number in range(3):
        await console.put(
            Instance, f"i-{number}", INSTANCE, {**ready(True), "phase": "Ready", "version": "5.1.0"}
        )
    failed = {"phase": "Failed", "version": "5.2.0", "message": "terraform failed"}
    await console.put(Instance, "i-bad", INSTANCE, failed)
    await console.put(Tenant, "slow", TENANT, ready(False, "NotAllResourcesReady"))
    text = words(await console.page("/"))
    assert "5.1.0 3 ✓ Ready 3" in text
    assert "5.2.0 1 ✕ Failed 1" in text
    assert text.index("i-bad") < text.index("slow")
    assert "terraform failed" in text


async def test_a_list_is_filtered_and_counted(console: Harness) -> None:
    await console.put(Instance, "one", INSTANCE, {**ready(True), "phase": "Ready", "version": "1"})
    await console.put(Instance, "two", INSTANCE, {"phase": "Failed", "version": "1"})
    await console.put(
        Instance, "three", INSTANCE, {**ready(True), "phase": "Ready", "version": "2"}
    )
    for query, names in (
        ("", "one two three"),
        ("?state=Ready", "one three"),
        ("?version=1", "one two"),
        ("?state=Ready&version=1", "one"),
        ("?q=w", "two"),
        ("?page=999999999999", "one two three"),
        ("?page=-1", "one two three"),
    ):
        text = await console.page(f"/objects/instances{query}")
        found = set(re.findall(r'href="/instances/default/(\w+)"', text))
        assert found == set(names.split()), query
    assert (await console.get("/objects/secrets"))[0] == 404


@pytest.mark.criterion("FAULT-B36")
async def test_a_tenant_shows_its_graph_and_what_each_resource_waits_for(console: Harness) -> None:
    def resource(name: str, kind: str, *needs: str) -> dict[str, Any]:
        manifest = {
            "apiVersion": "v1",
            "kind": kind,
            "metadata": {"name": name},
            "data": {WORD: WORD},
        }
        return {"id": name, "dependIds": list(needs), "spec": manifest}

    spec = {
        **TENANT,
        "configMaps": [resource("settings", "ConfigMap"), resource("more", "ConfigMap", "broken")],
        "secrets": [resource("broken", "Secret", "settings")],
        "variables": {"word": WORD},
    }
    status = {
        **ready(False, "NotAllResourcesReady", "1 failed"),
        "desiredResources": 3,
        "readyResources": 1,
        "appliedResources": ["ConfigMap/default/settings@settings"],
        "failedResourceIds": ["broken"],
        "skippedResourceIds": ["more"],
    }
    await console.put(Tenant, "acme", spec, status)
    page = await console.page("/tenants/default/acme")
    text = words(page)
    assert "1 of 3 resources" in text
    assert "settings ConfigMap ✓ Applied 0" in text
    assert "broken Secret ✕ Failed 1" in text
    assert "more ConfigMap … Skipped 2 broken" in text
    assert len(Tags(page).all("path")) == 2
    assert WORD not in page


async def test_an_instance_and_its_runs_are_shown_without_outputs(console: Harness) -> None:
    run = {"runID": "terraform-abc", "state": "Started", "attempt": 2, "message": "applying 7 of 9"}
    child = {"kind": "InstanceTerraform", "name": "acme", "phase": "Running", "runID": run["runID"]}
    status = {
        "phase": "Running",
        "version": "5.1.0",
        "outputs": {"password": WORD},
        "children": [child],
    }
    await console.put(Instance, "acme", INSTANCE, status)
    step = {
        "type": "Started",
        "message": "it runs",
        "lastTransitionTime": "2026-11-23T10:00:00.000001Z",
    }
    await console.put(
        InstanceTerraform,
        "acme",
        {"domain": "acme.example.com"},
        {"phase": "Running", "run": run, "outputs": {"password": WORD}, "taskConditions": [step]},
    )
    page = await console.page("/instances/default/acme")
    link = "/runs/instanceterraforms/default/acme"
    assert f'href="{link}"' in page
    assert "terraform-abc" in words(await console.page("/runs"))
    shown = words(await console.page(link))
    assert "applying 7 of 9" in shown
    assert "3 of 4 steps: Started" in shown
    assert "it runs" in shown
    for path in ("/", "/runs", link, "/instances/default/acme", "/objects/instances"):
        assert WORD not in await console.page(path)


@pytest.mark.criterion("ISSUE14-2-TERRAFORM-APPROVAL")
async def test_a_plan_that_waits_is_shown_with_what_it_destroys(console: Harness) -> None:
    plan = {
        "digest": "1f2e3d4c5b6a7980",
        "runID": "terraform-abc",
        "content": WORD,
        "add": 0,
        "destroy": 2,
        "destroys": ["destroy google_sql_database_instance.main"],
        "since": "2026-11-23T10:00:00.000001Z",
        "checkedAt": "2026-11-23T10:00:00.000001Z",
    }
    waiting = {
        "reason": "Approval",
        "message": "plan 1f2e3d4c5b6a7980 needs an approval",
        "since": "2026-11-23T10:00:00.000001Z",
    }
    status = {"phase": "Waiting", "plan": plan, "waiting": waiting}
    await console.put(InstanceTerraform, "acme", {"domain": "acme.example.com"}, status)
    assert "Approval" in words(await console.page("/runs"))
    page = await console.page("/runs/instanceterraforms/default/acme")
    shown = words(page)
    assert "digest 1f2e3d4c5b6a7980 add 0 change 0 destroy 2" in shown
    assert "destroy google_sql_database_instance.main" in shown
    assert "plan 1f2e3d4c5b6a7980 needs an approval" in shown
    assert WORD not in page


async def test_rollouts_are_shown_with_waves_and_an_estimate(console: Harness) -> None:
    waves = [{"name": "first", "percent": 10}, {"name": "all", "approval": "Manual"}]
    status = {
        "phase": "Progressing",
        "targetVersion": "5.2.0",
        "total": 100,
        "updated": 10,
        "wave": "first",
        "message": "90 wait for wave all",
        "waves": [{"name": "first", "instances": 10, "updated": 4, "ready": 3}],
    }
    now = [1000.0]
    console.console.state.clock = lambda: now[0]
    await console.put(FleetRollout, "monthly", {"targetVersion": "5.2.0", "waves": waves}, status)
    assert "not known yet" in words(await console.page("/rollouts"))
    now[0] += 600
    await console.report(FleetRollout, "monthly", {**status, "updated": 40})
    assert "about 20 min" in words(await console.page("/rollouts"))
    text = words(await console.page("/rollouts/fleetrollouts/default/monthly"))
    assert "90 wait for wave all" in text
    assert "first (in progress) 4 of 10 3 Automatic" in text
    assert "all 0 of 0 0 Manual" in text
    assert "monthly" in words(await console.page("/"))
    assert (await console.get("/rollouts/tenants/default/monthly"))[0] == 404


async def test_a_template_without_a_rollout_is_no_rollout(console: Harness) -> None:
    spec = {"registryId": "r", "configMaps": []}
    await console.put(TenantTemplate, "plain", spec, {"totalTenants": 1})
    assert "There is no rollout here" in await console.page("/rollouts")
    assert (await console.get("/rollouts/tenanttemplates/default/plain"))[0] == 404


@pytest.mark.criterion("G-T6")
async def test_what_is_held_back_is_listed_with_its_reason(console: Harness) -> None:
    source = {"type": "sqlite", "sqlite": {"path": "/x", "table": "t"}}
    spec = {"source": source, "valueMappings": {"uid": "id", "activate": "on"}}
    held = ready(True)
    held["conditions"].append(
        {
            "type": "DeletionsHeld",
            "status": "True",
            "reason": "TooManyDeletions",
            "message": f"40 of 50 tenants would go; {'long ' * 100}. Held: t1-app and 39 more",
            "lastTransitionTime": "2026-11-23T10:00:00Z",
        }
    )
    await console.put(TenantRegistry, "rows", spec, {**held, "unmanaged": 2})
    pending = {
        "resource": "PersistentVolumeClaim/default/data@data",
        "reason": "FinalizersRemain",
        "message": "kubernetes.io/pvc-protection",
        "since": "2026-11-23T10:00:00Z",
    }
    await console.put(Tenant, "stuck", TENANT, {**ready(True), "pendingRemovals": [pending]})
    await console.put(Tenant, "fine", TENANT, ready(True))
    text = words(await console.page("/held"))
    for part in (
        "40 of 50 tenants would go",
        "Held: t1-app and 39 more",
        "2 tenants name it",
        "pvc-protection",
        "stuck",
    ):
        assert part in text
    assert "fine" not in text
    await console.client.patch(
        Tenant, "fine", {"metadata": {"finalizers": ["example.com/wait"]}}, namespace="default"
    )
    await console.client.delete(Tenant, "fine", namespace="default")

    async def shown() -> bool:
        return "example.com/wait" in await console.page("/held")

    await eventually(shown)


async def test_queues_and_clusters_of_the_process_are_shown(console: Harness) -> None:
    text = words(await console.page("/queues"))
    assert "This replica is working" in text
    assert "Tenant 0" in text
    planes = words(await console.page("/data-planes"))
    assert "own cluster synced" in planes
    assert "manager operator" in planes


async def test_data_planes_are_those_of_the_fleetconfig_where_the_cache_has_it() -> None:
    async with running(None, FleetConfig) as console:
        await console.client.create(
            {
                "apiVersion": FleetConfig.gvk().api_version,
                "kind": "FleetConfig",
                "metadata": {"name": NAME},
                "spec": {},
            }
        )
        target = {
            "name": "plane-7",
            "result": "Failure",
            "reason": "DataPlaneUnreachable",
            "message": "no answer",
            "lastTransitionTime": "2026-11-23T10:00:00Z",
        }
        await console.client.patch_status(
            FleetConfig.gvk(), NAME, {"status": {"targetNamespaces": [target]}}
        )

        async def shown() -> str:
            return words(await console.page("/data-planes"))

        text = await eventually(shown, lambda text: "plane-7" in text)
        assert "plane-7 Failure DataPlaneUnreachable" in text


async def test_hostile_names_and_messages_are_text(console: Harness) -> None:
    spec = {**TENANT, "configMaps": [{"id": "x", "spec": {"kind": HOSTILE}}]}
    await console.put(Tenant, "acme", spec, ready(False, "Broken", HOSTILE))
    run = {"runID": HOSTILE, "state": "Started", "message": HOSTILE, "logs": "javascript:alert(3)"}
    await console.put(
        InstanceTerraform,
        "acme",
        {"domain": "acme.example.com"},
        {"phase": "Running", "message": HOSTILE, "run": run},
    )
    query = "?namespace=%22%3E%3Cscript%3Ealert(4)%3C/script%3E"
    for path in (
        *("/", "/failures", "/tenants/default/acme", "/objects/tenants", "/runs", "/held"),
        "/runs/instanceterraforms/default/acme",
        f"/{query}",
        f"/objects/tenants{query}&state=%3Cimg%20src=x%3E&q=%3Cimg%20src=x%3E",
        f"/sign-in{query}",
    ):
        tags = Tags(await console.page(path))
        assert [each["src"] for each in tags.all("script")] == [
            console.console._renderer.asset("console.js")
        ]
        assert not tags.all("img")
        for tag, attributes in tags.tags:
            assert not [name for name in attributes if name.startswith("on") or name == "style"]
            assert not str(attributes.get("href", "")).startswith("javascript"), tag


async def test_every_answer_has_a_strict_policy_and_is_not_stored(console: Harness) -> None:
    for path in ("/", "/nope", "/objects/none", "/sign-in", "/static/none"):
        async with console.http.get(console.url(path)) as answer:
            policy = answer.headers["Content-Security-Policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy
            assert answer.headers["Cache-Control"] == "no-store"
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
            assert answer.headers["Server"] == "console"
    asset = console.console._renderer.asset("console.js")
    async with console.http.get(console.url(asset)) as answer:
        text = await answer.text()
        assert answer.content_type == "text/javascript"
    assert len(text.splitlines()) < 300
    async with console.http.post(console.url("/failures")) as answer:
        assert answer.status == 405


async def test_pages_have_landmarks_captions_and_states_in_words(console: Harness) -> None:
    await console.put(Tenant, "acme", TENANT, ready(False, "Broken"))
    for path in ("/", "/failures", "/tenants/default/acme", "/objects/tenants"):
        text = await console.page(path)
        tags = Tags(text)
        assert [len(tags.all(name)) for name in ("main", "header", "h1")] == [1, 1, 1]
        assert tags.all("html")[0]["lang"] == "en"
        assert all(each.get("aria-label") for each in tags.all("nav"))
        assert len(tags.all("caption")) == len(tags.all("table")) > 0
        assert all(each.get("scope") for each in tags.all("th"))
        labelled = {each.get("for") for each in tags.all("label")}
        shown = [each for each in tags.all("input") if each.get("type") != "hidden"]
        assert all(each.get("id") in labelled or path.startswith("/objects") for each in shown)
        ids = [attributes["id"] for _, attributes in tags.tags if attributes.get("id")]
        assert len(ids) == len(set(ids))
        assert ("a", {"class": "skip", "href": "#main"}) in tags.tags
        assert "Broken" in words(text) or path.startswith("/tenants")

"""`manager plan`, over HTTP with rows in SQLite: what it prints is what the manager then does."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.client import PatchType
from ctrlruntime.envtest.proxy import Fail, Mark, Match
from ctrlruntime.envtest.proxy.requests import WRITES
from ctrlruntime.json import Json
from ctrlruntime.resources.change_plan import PlanError
from internal.tenancy.shared.labels import SKIP_HOOKS
from manager.controllers.plan_client import without_writes
from tests.manager_cli.program import Program
from tests.support.freezes import freeze_until, frozen, grant, requesting
from tests.tenancy.fleet import Fleet
from tests.tenancy.harness import CONFIG_MAP, SECRET, TenancyHarness, config_map

pytestmark = [pytest.mark.asyncio(loop_scope="module")]

KINDS: tuple[RESTMapping, ...] = (Tenant.mapping(), CONFIG_MAP, SECRET)
FREEZES = "changefreezes.operations.ctrlruntime.dev"
UIDS = ("anna", "bert", "cleo")
TENANTS = tuple(f"{uid}-app" for uid in UIDS)


@pytest.fixture
def harness(shared_harness: TenancyHarness) -> TenancyHarness:
    return shared_harness


def content(tier: str, **fields: object) -> dict[str, Any]:
    """A template with one ConfigMap a tenant."""
    data = {"tier": tier, "host": "{{ host }}"}
    return {"configMaps": [config_map("settings", "{{ uid }}-settings", data, **fields)]}


async def settled(harness: TenancyHarness, **registry: Json) -> Fleet:
    """Three tenants, ready, of a template with one ConfigMap each."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry(**registry)
    await fleet.template(**content("small"))
    await fleet.ready(*TENANTS)
    await harness.idle()
    return fleet


@dataclass(frozen=True)
class Planned:
    """What a run of the command printed."""

    code: int
    output: str
    made: dict[str, Any] = field(default_factory=dict)

    def members(self, verb: str) -> set[tuple[str, str]]:
        """The objects of a verb: kind and name."""
        return {
            (group["kind"].partition(".")[0], member["name"])
            for group in self.made["groups"]
            if group["verb"] == verb
            for member in group["members"]
        }

    def group(self, kind: str, verb: str = "update") -> dict[str, Any]:
        """The only group of a kind and a verb."""
        found = [g for g in self.made["groups"] if (g["kind"], g["verb"]) == (kind, verb)]
        assert len(found) == 1, self.output
        return dict(found[0])


async def run_plan(fleet: Fleet, *arguments: str, output: str = "json") -> Planned:
    """Run the command as an administrator, whose requests are all its own."""
    kubeconfig = fleet.harness.environment.kubeconfig("admin")
    command: list[str | Path] = [
        "plan",
        "--kubeconfig",
        kubeconfig,
        "-n",
        fleet.namespace,
        "-o",
        output,
    ]
    command += ["--allow-sqlite", fleet.harness.folder, *arguments]
    async with await Program.start(*command) as program:
        code = await program.wait()
        made = json.loads(program.output) if output == "json" and code < 2 else {}
        return Planned(code, program.output, made)


def write_template(folder: Path, lists: Mapping[str, Any], name: str = "app") -> str:
    """Write a TenantTemplate to a file. Returns its path."""
    kind = TenantTemplate.gvk()
    manifest = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name},
        "spec": {"registryId": "registry", **lists},
    }
    path = folder / f"{name}-template.yaml"
    path.write_text(yaml.safe_dump(manifest))
    return str(path)


def requests(harness: TenancyHarness, since: Mark, verbs: Collection[str]) -> list[str]:
    """What the command requested of the server since then."""
    return [
        f"{each.verb} {each.resource} {each.name}"
        for each in harness.environment.proxy.log.entries(since)
        if each.user == "admin" and each.verb in verbs
    ]


async def snapshot(fleet: Fleet) -> dict[tuple[str, str], str]:
    """The resourceVersion of every object by kind and name."""
    found: dict[tuple[str, str], str] = {}
    for kind in KINDS:
        for item in await fleet.harness.client.list(kind, fleet.namespace):
            metadata = item["metadata"]
            found[kind.gvk.kind, metadata["name"]] = metadata["resourceVersion"]
    return found


async def test_an_unchanged_template_and_registry_give_no_changes_and_no_writes(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    mark = harness.mark()
    for arguments in (
        ("-f", write_template(tmp_path, content("small")), "--no-confirm"),
        ("--registry", "registry"),
    ):
        planned = await run_plan(fleet, *arguments)
        assert planned.code == 0, planned.output
        assert planned.made["groups"] == []
    assert requests(harness, mark, WRITES) == ["update tenanttemplates.tenancy.ctrlruntime.dev app"]


async def test_a_changed_config_map_is_one_group_of_all_tenants(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    before = await snapshot(fleet)
    planned = await run_plan(fleet, "-f", write_template(tmp_path, content("large")))
    assert planned.code == 1, planned.output
    group = planned.group("ConfigMap")
    assert group["count"] == 3
    assert group["confirmed"]
    changes = [(each["path"], each["before"], each["after"]) for each in group["changes"]]
    assert changes == [("data.tier", "small", "large")]
    assert planned.members("update") == {
        *(("Tenant", name) for name in TENANTS),
        *(("ConfigMap", f"{uid}-settings") for uid in UIDS),
    }
    assert planned.made["writes"] == 6
    assert await snapshot(fleet) == before


async def idle(harness: TenancyHarness, **registry: Json) -> Fleet:
    """Like `settled`, with a registry that does not read its rows again for an hour."""
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    await fleet.registry(source={**fleet.source(), "syncInterval": "1h"}, **registry)
    await fleet.template(**content("small"))
    await fleet.ready(*TENANTS)
    await harness.idle()
    return fleet


async def test_rows_added_changed_and_removed_are_planned(harness: TenancyHarness) -> None:
    fleet = await idle(harness)
    fleet.row("bert", url="https://elsewhere.example.com/")
    fleet.row("dora", plan="gold")
    fleet.delete_row("cleo")
    planned = await run_plan(fleet, "--registry", "registry")
    assert planned.code == 1, planned.output
    assert planned.members("create") == {("Tenant", "dora-app"), ("ConfigMap", "dora-settings")}
    assert planned.members("update") == {("Tenant", "bert-app"), ("ConfigMap", "bert-settings")}
    assert planned.members("delete") == {("Tenant", "cleo-app"), ("ConfigMap", "cleo-settings")}
    assert planned.made["held"] == planned.made["failures"] == []
    assert all(group["confirmed"] for group in planned.made["groups"]), planned.output


async def test_a_duplicate_uid_is_held_and_deletes_nothing(harness: TenancyHarness) -> None:
    fleet = await idle(harness)
    fleet.add_row("bert", url="https://elsewhere.example.com/")
    planned = await run_plan(fleet, "--registry", "registry")
    assert planned.code == 1
    assert planned.made["groups"] == []
    (held,) = planned.made["held"]
    assert "DuplicateUid" in held["message"]
    assert "'bert'" in held["message"]


async def test_a_deletion_that_the_guard_would_hold_is_shown_as_held(
    harness: TenancyHarness,
) -> None:
    fleet = await idle(harness)
    for uid in ("bert", "cleo"):
        fleet.delete_row(uid)
    planned = await run_plan(fleet, "--registry", "registry", output="text")
    assert planned.code == 1
    assert "TooManyDeletions" in planned.output
    assert "2 held" in planned.output
    await fleet.annotate(TenantRegistry, "registry", reconcile_now="1")
    held = await fleet.until(TenantRegistry, "registry", "DeletionsHeld", "True", message="bert")
    assert held.message in planned.output  # the same digest, names and command
    assert "Held: bert-app, cleo-app" in held.message
    assert "delete" not in planned.output.split("Held:")[0]


async def test_rows_whose_template_does_not_render_are_listed(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await idle(harness)
    fleet.row("bert", plan="gold")
    lists = content("{{ {'basic': 'small'}[planId] }}")
    arguments = ("--registry", "registry", "-f", write_template(tmp_path, lists))
    planned = await run_plan(fleet, *arguments)
    assert planned.code == 1, planned.output
    (failure,) = planned.made["failures"]
    assert (failure["resource"], failure["uids"]) == ("settings", ["bert"])
    shown = await run_plan(fleet, *arguments, output="text")
    assert "Rows that fail:" in shown.output
    assert "(1 row: bert)" in shown.output


async def test_a_template_that_is_not_rolled_out_lists_its_rows(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    planned = await run_plan(fleet, "-f", write_template(tmp_path, content("{{ now }}")))
    assert planned.code == 1, planned.output
    assert planned.made["groups"] == []
    (failure,) = planned.made["failures"]
    assert "is not rolled out" in failure["message"]
    assert failure["uids"] == list(UIDS)


async def test_what_the_server_refuses_is_seen_by_the_dry_run_of_the_group(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    lists = content("small")
    lists["configMaps"][0]["spec"]["data"]["a/b"] = "not a valid key"
    planned = await run_plan(fleet, "-f", write_template(tmp_path, lists))
    group = planned.group("ConfigMap")
    assert not group["confirmed"]
    assert "a/b" in group["refusal"]


async def test_values_of_secrets_are_never_printed(harness: TenancyHarness, tmp_path: Path) -> None:
    mappings = {"planId": "plan", "password": {"column": "secret", "sensitive": True}}
    fleet = await idle(harness, extraValueMappings=mappings)
    fleet.row("bert", secret="changed-secret-of-bert")
    fleet.row("dora", secret="new-secret-of-dora")

    def with_secret(tier: str, fixed: str) -> dict[str, Any]:
        texts = {"password": "{{ password }}", "fixed": fixed}
        spec = {"apiVersion": "v1", "kind": "Secret", "stringData": texts}
        secret = {"id": "credentials", "nameTemplate": "{{ uid }}-credentials", "spec": spec}
        return {**content(tier), "secrets": [secret]}

    await fleet.template(**with_secret("small", "written-in-the-template-at-first"))
    await fleet.there(SECRET, "cleo-credentials")
    await harness.idle()
    lists = with_secret("host of {{ password }}", "written-in-the-template")
    path = write_template(tmp_path, lists)
    values = ["changed-secret-of-bert", "new-secret-of-dora", "secret-of-anna", "written-in-the"]
    hidden = [*values, *(base64.b64encode(each.encode()).decode().rstrip("=") for each in values)]
    for output in ("text", "json", "markdown"):
        planned = await run_plan(fleet, "--registry", "registry", "-f", path, output=output)
        assert planned.code == 1, planned.output
        assert "credentials" in planned.output
        assert [each for each in hidden if each in planned.output] == []


async def test_a_plan_that_cannot_be_made_has_another_exit_code(harness: TenancyHarness) -> None:
    fleet = await settled(harness)
    missing = await run_plan(fleet, "--registry", "nothing")
    assert (missing.code, "there is no TenantRegistry 'nothing'" in missing.output) == (2, True)
    await fleet.patch(
        TenantRegistry, "registry", {"spec": {"source": {"sqlite": {"table": "no_such_table"}}}}
    )
    unreadable = await run_plan(fleet, "--registry", "registry")
    assert unreadable.code == 2, unreadable.output
    assert "no_such_table" in unreadable.output


async def test_markdown_has_the_diff_of_each_group(harness: TenancyHarness, tmp_path: Path) -> None:
    fleet = await settled(harness)
    path = write_template(tmp_path, content("large"))
    planned = await run_plan(fleet, "-f", path, output="markdown")
    assert '```diff\n- data.tier: "small"\n+ data.tier: "large"\n```' in planned.output
    assert "3 share this, for example" in planned.output
    assert "Plan: 6 to change; 6 writes." in planned.output


async def test_a_freeze_that_would_hold_the_changes_is_noted(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    path = write_template(tmp_path, content("large"))
    template, registry = ("-f", path), ("--registry", "registry")

    async def note_of(*arguments: str) -> str:
        planned = await run_plan(fleet, *arguments, "--no-confirm")
        found = [note for note in planned.made["notes"] if "ChangeFreeze" in note]
        return found[0] if found else ""

    assert await note_of(*template) == ""
    end = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)
    async with (
        frozen(harness.client, namespaces=["elsewhere"], reason="Move"),
        frozen(harness.client, reason="Year-end closing", until=end, name="year-end"),
    ):
        why = (
            f"ChangeFreeze 'year-end' holds all changes, Year-end closing, until {end.isoformat()}"
        )
        await freeze_until(harness.client, "year-end", lambda each: each.status.phase == "Active")
        fleet.row("cleo", active=0)
        tail = "New tenants are created all the same"
        assert await note_of(*template) == f"changes of 3 tenants wait: {why}. {tail}"
        gone = f"changes of 1 tenant wait: {why}. {tail}"
        assert await note_of(*registry) == gone, "the tenant whose row is inactive stays for now"
        assert await note_of(*registry, *template) == f"changes of 3 tenants wait: {why}. {tail}"
        text = (await run_plan(fleet, *template, "--no-confirm", output="text")).output
        assert f"Note: changes of 3 tenants wait: {why}. {tail}\n" in text
        shown = (await run_plan(fleet, *template, "--no-confirm", output="markdown")).output
        assert f"> changes of 3 tenants wait: {why}. {tail}" in shown.replace("&#x27;", "'")
        await fleet.patch(TenantRegistry, "registry", requesting("year-end"))
        command = f"manager freeze exempt year-end TenantRegistry/registry -n {fleet.namespace}"
        assert command in await note_of(*template), "an annotation grants nothing"
        await grant(harness.client, "year-end", "TenantRegistry", fleet.namespace, "registry")
        assert await note_of(*template) == ""


async def test_a_closed_window_that_would_hold_the_changes_is_noted(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    hour = (datetime.now(UTC) + timedelta(hours=6)).hour
    windows = [{"schedule": f"0 {hour} * * *", "duration": "1h"}]
    await fleet.patch(TenantRegistry, "registry", {"spec": {"maintenanceWindows": windows}})
    path = write_template(tmp_path, content("large"))
    planned = await run_plan(fleet, "-f", path, "--no-confirm")
    (note,) = planned.made["notes"]
    assert note.startswith("changes of 3 tenants wait: ")
    assert "window" in note
    same = write_template(tmp_path, content("small"))
    assert (await run_plan(fleet, "-f", same, "--no-confirm")).made["notes"] == []


def hooks(*moments: str) -> list[dict[str, Any]]:
    """One hook for each moment, called as that."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "c", "image": "tool:{{ uid }}"}]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "spec": {"template": {"spec": pod}}}
    return [
        {"id": each, "moment": each, "nameTemplate": "{{ uid }}-" + each.lower(), "spec": job}
        for each in moments
    ]


async def test_the_jobs_of_hooks_that_would_run_are_listed_with_their_moment(
    harness: TenancyHarness,
) -> None:
    fleet = await idle(harness)
    await fleet.template(
        **content("small"), hooks=hooks("BeforeCreate", "BeforeDelete", "AfterDelete")
    )
    await harness.idle()

    async def jobs() -> dict[str, list[str]]:
        """The Jobs to create, by the id and the moment of their hook."""
        planned = await run_plan(fleet, "--registry", "registry")
        assert planned.code == 1, planned.output
        found = [group for group in planned.made["groups"] if group["kind"] == "Job.batch"]
        assert all(group["verb"] == "create" and group["confirmed"] for group in found)
        assert {group["resource"].removeprefix("hook:") for group in found} == {
            group["reason"] for group in found
        }
        return {group["reason"]: [each["name"] for each in group["members"]] for group in found}

    fleet.row("dora")
    assert await jobs() == {"BeforeCreate": ["dora-beforecreate"]}
    text = (await run_plan(fleet, "--registry", "registry", output="text")).output
    assert "create Job.batch hook:BeforeCreate of template app (BeforeCreate)" in text
    fleet.delete_row("bert")
    assert await jobs() == {
        "BeforeCreate": ["dora-beforecreate"],
        "BeforeDelete": ["bert-beforedelete"],
        "AfterDelete": ["bert-afterdelete"],
    }, "bert waits for dora, and its objects go then"
    fleet.delete_row("dora")
    assert await jobs() == {
        "BeforeDelete": ["bert-beforedelete"],
        "AfterDelete": ["bert-afterdelete"],
    }
    skipped = {"metadata": {"annotations": {SKIP_HOOKS: "AfterDelete"}}}
    await fleet.patch(Tenant, "bert-app", skipped)
    assert await jobs() == {"BeforeDelete": ["bert-beforedelete"]}


async def test_without_the_right_to_list_freezes_the_plan_notes_it_at_once(
    harness: TenancyHarness, tmp_path: Path
) -> None:
    fleet = await settled(harness)
    path = write_template(tmp_path, content("large"))
    proxy = harness.environment.proxy
    fault = proxy.add(
        Fail(code=403, reason="Forbidden"), Match(user="admin", resource=FREEZES), times=None
    )
    try:
        for arguments in (("-f", path), ("--registry", "registry", "-f", path)):
            async with asyncio.timeout(60):
                planned = await run_plan(fleet, *arguments, "--no-confirm")
            assert planned.code == 1, planned.output
            assert planned.group("ConfigMap")["count"] == 3
            (note,) = planned.made["notes"]
            assert note.startswith("ChangeFreezes could not be read")
            assert f"the right to list {FREEZES}" in note
    finally:
        proxy.remove(fault)
    assert (await run_plan(fleet, "-f", path, "--no-confirm")).made["notes"] == []


async def test_a_client_of_a_plan_sends_no_write_but_dry_runs(harness: TenancyHarness) -> None:
    fleet = await Fleet.make(harness)
    client = without_writes(harness.client)
    metadata = {"name": "made", "namespace": fleet.namespace}
    manifest: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    await client.create(manifest)
    with pytest.raises(PlanError, match="a plan writes nothing: create"):
        await client.create(manifest, dry_run=False)
    assert await fleet.get(CONFIG_MAP, "made") is None


# -- the plan and what the manager then does ---------------------------------------------------


@pytest.fixture
async def own_harness(shared_server: None, tmp_path: Path) -> AsyncIterator[TenancyHarness]:
    async with TenancyHarness.start(tmp_path) as harness:
        yield harness


Content = dict[tuple[str, str], Any]


async def contents(fleet: Fleet) -> Content:
    """What a plan is about of each object, by kind and name."""
    found: Content = {}
    for kind in KINDS:
        for item in await fleet.harness.client.list(kind, fleet.namespace):
            shown = item.get("spec") or item.get("data")
            if item["metadata"]["name"] != "kube-root-ca.crt":
                found[kind.gvk.kind, item["metadata"]["name"]] = shown
    return found


def compare(planned: Planned, before: Content, after: Content) -> None:
    """Check that the manager did what was planned, and nothing else."""
    assert planned.members("create") == set(after) - set(before)
    gone = planned.members("delete") | planned.members("replace")
    assert gone == set(before) - set(after)
    both = set(before) & set(after)
    assert planned.members("update") == {key for key in both if before[key] != after[key]}


def lists(version: int) -> dict[str, Any]:
    """A template of two versions, with a resource that goes, one that comes and one renamed."""
    spec = {"apiVersion": "v1", "kind": "Secret", "stringData": {"password": "{{ password }}"}}
    one = [config_map("old", "{{ uid }}-old"), config_map("renamed", "{{ uid }}-before")]
    two = [config_map("new", "{{ uid }}-new"), config_map("renamed", "{{ uid }}-after")]
    data = {"tier": f"tier-{version}", "plan": "{{ planId }}"}
    return {
        "configMaps": [
            config_map("settings", "{{ uid }}-settings", data, dependIds=["fixed"]),
            config_map("fixed", "{{ uid }}-fixed", {"k": "v", "other": "w"}),
            config_map("kept", "{{ uid }}-kept", deletionPolicy="Retain"),
            *(one if version == 1 else two),
        ],
        "secrets": [{"id": "key", "nameTemplate": "{{ uid }}-key", "spec": spec}],
    }


@pytest.mark.asyncio(loop_scope="function")
async def test_an_object_that_was_edited_by_hand_is_drift(own_harness: TenancyHarness) -> None:
    fleet = await settled(own_harness)
    await own_harness.stop_manager()
    await own_harness.client.patch(
        CONFIG_MAP,
        "bert-settings",
        {"data": {"tier": "edited"}},
        namespace=fleet.namespace,
        type=PatchType.MERGE,
    )
    planned = await run_plan(fleet, "--registry", "registry")
    assert planned.code == 1, planned.output
    (group,) = planned.made["groups"]
    assert (group["verb"], group["reason"], group["confirmed"]) == ("update", "drift", True)
    assert [each["name"] for each in group["members"]] == ["bert-settings"]
    assert [(each["path"], each["after"]) for each in group["changes"]] == [("data.tier", "small")]
    assert group["changes"][0]["restored"]


@pytest.mark.asyncio(loop_scope="function")
async def test_the_manager_does_what_was_planned_for_a_sync(own_harness: TenancyHarness) -> None:
    harness = own_harness
    fleet = await Fleet.make(harness)
    fleet.rows("a", "b", "c", "d", "e")
    mappings = {"planId": "plan", "password": {"column": "secret", "sensitive": True}}
    await fleet.registry(extraValueMappings=mappings)
    await fleet.template(**lists(1))
    await fleet.ready(*(f"{uid}-app" for uid in "abcde"))
    await harness.idle()
    await harness.stop_manager()

    await fleet.template(**lists(2))
    fleet.row("a", plan="gold", secret="another")
    fleet.delete_row("b")
    fleet.add_row("c")
    fleet.row("f")
    await harness.client.patch(
        CONFIG_MAP,
        "d-fixed",
        {"data": {"k": "edited"}},
        namespace=fleet.namespace,
        type=PatchType.MERGE,
    )
    before = await contents(fleet)
    planned = await run_plan(fleet, "--registry", "registry")
    assert planned.code == 1, planned.output
    assert await contents(fleet) == before
    (drift,) = (group for group in planned.made["groups"] if group["reason"] == "drift")
    assert [each["name"] for each in drift["members"]] == ["d-fixed"]
    assert [(each["path"], each["after"]) for each in drift["changes"]] == [("data.k", "v")]

    await harness.start_manager()
    await fleet.ready(*(f"{uid}-app" for uid in "adef"))
    await fleet.gone(Tenant, "b-app")
    await harness.idle()
    compare(planned, before, await contents(fleet))


@pytest.mark.asyncio(loop_scope="function")
async def test_the_manager_does_what_was_planned_for_a_template(
    own_harness: TenancyHarness, tmp_path: Path
) -> None:
    harness = own_harness
    fleet = await Fleet.make(harness)
    fleet.rows(*UIDS)
    mappings = {"planId": "plan", "password": {"column": "secret", "sensitive": True}}
    await fleet.registry(extraValueMappings=mappings)
    await fleet.template(**lists(1))
    await fleet.ready(*TENANTS)
    await harness.idle()
    before = await contents(fleet)
    planned = await run_plan(fleet, "-f", write_template(tmp_path, lists(2)))
    assert planned.code == 1, planned.output
    await fleet.template(**lists(2))
    await fleet.there(CONFIG_MAP, "cleo-new")
    await fleet.ready(*TENANTS)
    await harness.idle()
    compare(planned, before, await contents(fleet))
    again = await run_plan(fleet, "-f", write_template(tmp_path, lists(2)))
    assert again.code == 0, again.output

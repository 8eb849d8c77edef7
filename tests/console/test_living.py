"""The console as a place to work in: one object of each kind, all its links, trees, timeline, YAML, search and charts."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from html import unescape

import pytest

from apis.cosmos import CosmosFullNode
from apis.tenancy import Tenant, TenantTemplate
from ctrlruntime.events.correlator import Occurrence
from ctrlruntime.sharding.report import SlotsOwned, Unowned
from manager.commands.summaries import summary_of
from manager.console.paths import object_path
from manager.kinds import KINDS
from tests.console.harness import ADMIN, SHOWN, TEAM, TENANT, Harness, ready, running
from tests.console.relatives import (
    SHOWN_KINDS,
    fill_relatives,
    filled_status,
    manifest_of,
    name_of,
    object_url,
    place_of,
    status_of,
)
from tests.console.test_pages import HOSTILE, WORD, Tags, words
from tests.support.waiting import eventually

pytestmark = pytest.mark.criterion("U-16")
LARGEST = 120 * 1024


@pytest.fixture
async def console() -> AsyncIterator[Harness]:
    async with running(None, *SHOWN_KINDS) as harness:
        await fill_relatives(harness)
        yield harness


def section(text: str, name: str) -> str:
    """The words of one section of a page."""
    body = text[text.index(f'<section aria-labelledby="{name}">') :]
    return unescape(words(f'<div id="content">{body[: body.index("</section>")]}'))


async def crawl(console: Harness, path: str = "/") -> dict[str, str]:
    """Every page that can be reached by links, by its path without a fragment."""
    found: dict[str, str] = {}
    todo = [path]
    while todo:
        one = todo.pop()
        if one in found or one.startswith("/static/"):
            continue
        found[one] = await console.page(one)
        links = [each.get("href") or "" for each in Tags(found[one]).all("a")]
        todo += [each.partition("#")[0] for each in links if each.startswith("/")]
    return found


async def test_every_object_is_reached_by_links_and_shows_the_state_that_top_shows(
    console: Harness,
) -> None:
    """Some eight seconds: about a hundred pages are read, each that a link leads to."""
    pages = await crawl(console)
    for kind in KINDS:
        name = name_of(kind.gvk().kind)
        text = await console.page(object_url(kind))
        found = await console.client.get(
            kind.gvk(), name, namespace="default" if kind.mapping().namespaced else None
        )
        state = summary_of({**found, "kind": kind.gvk().kind}).state
        assert f"{state} " in words(text), kind
        own = [
            path
            for path in pages
            if path.endswith(f"/{name}") and f"<h1>{kind.gvk().kind} {name}</h1>" in pages[path]
        ]
        assert own, kind
        assert object_url(kind, "/yaml") in pages
        for part in ("tree", "next", "timeline"):
            assert section(text, part), (kind, part)
    sizes = {path: len(text.encode()) for path, text in pages.items()}
    assert max(sizes.values()) <= LARGEST, sizes


async def test_trees_have_parents_children_state_and_reason(console: Harness) -> None:
    tenant = section(await console.page("/tenants/default/acme-web"), "tree")
    assert re.search(
        r"TenantRegistry customers ✓ Ready TenantTemplate web ✓ Ready "
        r"Tenant acme-web … NotAllResourcesReady database was not ready within 300 s "
        r"ConfigMap settings ✓ Applied Secret credentials ✓ Applied "
        r"Deployment database ✕ Failed .* Deployment web … Skipped .*waits for database "
        r"Service entry … Skipped",
        tenant,
    )
    instance = await console.page("/instances/default/acme")
    assert section(instance, "tree").startswith(
        "Resource tree FleetRollout november … Progressing 29 wait for wave rest "
        "Instance acme ✕ Failed terraform: quota of addresses is used up "
        "InstanceTerraform acme ✕ Failed quota of addresses is used up "
        "Run terraform-3f9a ✕ Failed quota of addresses is used up"
    )
    node_set = section(await console.page("/objects/cosmosfullnodes/default/gaia"), "tree")
    assert (
        "CosmosFullNode gaia … Progressing "
        "Pod gaia-0 ✓ Running height 1200 PersistentVolumeClaim pvc-gaia-0 ✓ Bound" in node_set
    )
    assert "Pod gaia-2 ✕ Pending does not start: container node cannot pull image" in node_set
    assert "ScheduledVolumeSnapshot one ✓ Ready" in node_set
    run = section(await console.page("/runs/instanceterraforms/default/acme"), "tree")
    assert "Instance acme ✕ Failed" in run
    template = section(await console.page("/objects/tenanttemplates/default/web"), "tree")
    assert "TenantRegistry customers ✓ Ready TenantTemplate web" in template
    registry = section(await console.page("/objects/tenantregistries/default/customers"), "tree")
    assert "TenantRegistry customers ✓ Ready TenantTemplate web ✓ Ready" in registry


async def test_a_tree_and_a_timeline_show_what_the_reader_may_list_alone(console: Harness) -> None:
    spec = {**manifest_of(CosmosFullNode)["spec"]}
    await console.put(CosmosFullNode, "theirs", spec, status_of(CosmosFullNode), "team")
    owner = await console.client.get(CosmosFullNode, "theirs", namespace="team")
    console.manager.recorder.event(owner, "Warning", "Blocked", "Roll", "seen by few")
    path = "/objects/cosmosfullnodes/team/theirs"
    rights = {"apiGroups": [CosmosFullNode.gvk().group], "resources": ["*"], "verbs": ["get"]}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "rules": [rights]}
    await console.client.create(
        {**role, "metadata": {"name": "cosmos", "namespace": "team"}},
    )
    subject = {"kind": "User", "name": TEAM.name, "apiGroup": "rbac.authorization.k8s.io"}
    reference = {"kind": "Role", "name": "cosmos", "apiGroup": "rbac.authorization.k8s.io"}
    await console.client.create(
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "cosmos", "namespace": "team"},
            "subjects": [subject],
            "roleRef": reference,
        }
    )
    text = await console.page(path, TEAM)
    assert "Pod gaia-2 ✕ Silent does not answer" in section(text, "tree")
    assert "seen by few" not in text
    assert "You may not list here: scheduledvolumesnapshots" in text
    assert "seen by few" in section(await console.page(path, ADMIN), "timeline")


async def test_a_timeline_has_conditions_changes_and_events(console: Harness) -> None:
    path = "/objects/tenanttemplates/default/web"
    await console.page(path)
    await console.report(TenantTemplate, "web", ready(False, "Broken", "a field is missing"))
    await console.page(path)
    found = await console.client.get(TenantTemplate, "web", namespace="default")
    for _ in range(2):
        console.manager.recorder.event(found, "Normal", "Rolled", "Roll", "to all tenants")
    text = section(await console.page(path), "timeline")
    assert "Change ✕ Ready → Broken a field is missing" in text
    assert "Event ✓ Rolled (2 times) to all tenants" in text
    assert "Condition Ready is False: Broken a field is missing" in text
    assert "Object Created" in text
    everything = words(await console.page("/timeline"))
    assert "Ready → Broken" in everything
    assert "Rolled (2 times)" in everything
    assert "to all tenants" not in words(await console.page("/timeline?namespace=other"))


async def test_yaml_has_nothing_of_a_secret(console: Harness) -> None:
    document = f'{{"data": {{"password": "{WORD}"}}}}'
    secret = {
        "id": "credentials",
        "spec": {"apiVersion": "v1", "kind": "Secret", "stringData": {"a": WORD}},
    }
    spec = {**TENANT, "secrets": [secret], "variables": {"colour": WORD}}
    await console.put(Tenant, "hidden", spec, ready(True))
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": document,
        "example.com/copy": document,
        "example.com/token": WORD,
        "example.com/team": "blue",
    }
    await console.client.patch(
        Tenant, "hidden", {"metadata": {"annotations": annotations}}, namespace="default"
    )
    path = "/yaml/tenants/default/hidden"

    async def shown() -> str:
        return await console.page(path)

    text = await eventually(shown, lambda text: "example.com/team: blue" in unescape(text))
    assert WORD not in text
    for part in ("colour: (not shown)", "kind: Secret", "templateRef: web", "last-applied"):
        assert part in unescape(text), part
    assert WORD not in await console.page("/tenants/default/hidden")
    assert (await console.get(path, TEAM))[0] == 403
    assert (await console.get("/yaml/secrets/default/hidden"))[0] == 404


async def test_one_search_finds_objects_of_all_kinds_and_lists_are_sorted(console: Harness) -> None:
    found = words(await console.page("/search?q=quota+addresses"))
    assert "Instance default acme ✕ Failed" in found
    assert "InstanceTerraform default acme ✕ Failed" in found
    assert "2 in all" in found
    assert "No object has: acme" in words(await console.page("/search?q=acme&namespace=team"))
    assert (await console.get("/search?q=acme", TEAM))[0] == 403
    assert "ScheduledVolumeSnapshot" in words(await console.page("/search?q=SCHEDULED"))
    for name, version in (("b-one", "2"), ("a-two", "3"), ("c-three", "1")):
        await console.put(Tenant, name, TENANT, {**ready(True), "version": version})
    for sort, order in (
        ("name", "a-two b-one c-three"),
        ("-name", "c-three b-one a-two"),
        ("nonsense", "a-two b-one c-three"),
    ):
        text = await console.page(f"/objects/tenants?sort={sort}&q=-")
        names = re.findall(r'href="/tenants/default/([abc]-\w+)"', text)
        assert names == order.split(), sort
        ordered = [each for each in Tags(text).all("th") if each.get("aria-sort")]
        assert len(ordered) == (sort != "nonsense")


async def test_charts_are_of_what_was_sampled_and_of_what_the_reader_may_see(
    console: Harness,
) -> None:
    state = console.console.state
    for _ in range(3):
        await state.sample()
    for path, label in (
        ("/", "Objects by what their state means: Failing 2, Unknown 0, Waiting"),
        ("/?namespace=default", "Objects by what their state means"),
        ("/rollouts/fleetrollouts/default/november", "all 40, updated 9, wave internal 4"),
        ("/objects/cosmosfullnodes/default/gaia", "gaia-0 1,200, gaia-1 1,201, gaia-2 1,202"),
    ):
        tags = Tags(await console.page(path))
        drawn = [each for each in tags.all("svg") if label in str(each.get("aria-label"))]
        assert drawn, (path, label)
        assert tags.all("polyline")
    assert not Tags(await console.page("/?namespace=team", TEAM)).all("polyline")


async def test_shards_show_members_and_the_slots_without_an_owner(
    console: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "shares its tenants with no other" in words(await console.page("/shards"))
    owned = SlotsOwned(
        epoch=7,
        held={"m-0": frozenset(range(60)), HOSTILE: frozenset()},
        unowned=(Unowned(frozenset({60}), "m-1", 3.0), Unowned(frozenset({61}), "", 95.0)),
    )
    monkeypatch.setattr(console.manager, "shards", type("Shards", (), {"owned": owned}))
    page = await console.page("/shards")
    text = words(page)
    assert "oldest slot without an owner 95 s" in text
    assert "m-0 60 0-59" in text
    assert text.index("61 no member 95") < text.index("60 m-1 3")
    assert not Tags(page).all("img")
    assert (await console.get("/shards", TEAM))[0] == 403


@pytest.mark.parametrize("more", ["\x1b]0;x\x07\u202e", "x" * 3_000], ids=["controls", "long"])
async def test_no_page_of_any_kind_runs_what_is_in_an_object(console: Harness, more: str) -> None:
    """Every field of every status, annotations and events: each page of an object, and each list."""
    hostile = f"{HOSTILE}</textarea>{{{{7*7}}}}{more}"
    for kind in KINDS:
        name = name_of(kind.gvk().kind)
        place = "default" if kind.mapping().namespaced else None
        gvk = kind.gvk()
        label = {"metadata": {"annotations": {"example.com/note": hostile}}}
        await console.client.patch(gvk, name, label, namespace=place)
        await console.report(kind, name, filled_status(kind, hostile), place or "")
        reference = {"kind": gvk.kind, "namespace": place or "", "name": name}
        event = Occurrence(
            regarding=reference, type="Warning", reason=hostile, action="x", note=hostile
        )
        console.console.state.recorded(event)
    own = {object_path(k.gvk().kind, place_of(k), name_of(k.gvk().kind)) for k in KINDS}
    own |= {object_url(kind, head) for kind in KINDS for head in ("/objects", "/yaml")}
    first = await console.page("/")
    paths = own | {each.get("href") or "" for each in Tags(first).all("a")}
    script = console.console._renderer.asset("console.js")
    shown = 0
    for path in sorted(each for each in paths if each.startswith("/")):
        text = await console.page(path)
        tags = Tags(text)
        shown += "&lt;script&gt;alert(1)" in text
        assert len(text) < LARGEST, path
        assert [each["src"] for each in tags.all("script")] == [script], path
        assert not tags.all("img"), path
        assert "\x1b" not in text
        assert "\u202e" not in text, path
        for _, attributes in tags.tags:
            assert not [each for each in attributes if each.startswith("on") or each == "style"]
            assert not str(attributes.get("href", "")).startswith("javascript"), path
    assert shown > 2 * len(KINDS)


async def test_idle_pages_streams_and_samples_cause_no_request(console: Harness) -> None:
    paths = [object_url(kind) for kind in KINDS] + ["/", "/search?q=a", "/timeline", "/shards"]
    for path in paths:
        await console.page(path)
    log = console.environment.proxy.log
    before = log.mark()
    for path in paths:
        await console.page(path)
        await console.console.state.sample()
    counts = log.since(before).select(user="manager")
    assert counts.total == 0, str(counts)


async def test_the_first_page_after_a_start_has_the_charts_of_the_time_before() -> None:
    async with running(None, *SHOWN) as console:
        await eventually(lambda: console.console.state.history._taken)
        await console.put(Tenant, "one", TENANT, ready(True))
        state = console.console.state
        await state.sample()
        await state.sample()
        assert "polyline" in await console.page("/")

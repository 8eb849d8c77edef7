"""The parts of the console that do no I/O: commands, masked manifests, charts, the journal, ages."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import UTC, datetime
from math import isnan
from typing import Any

import orjson
import pytest

from apis.health import RULES, Health
from ctrlruntime.api import Resource
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, EntryDecoder
from ctrlruntime.generate.crd import open_api_schema
from ctrlruntime.json import Json
from ctrlruntime.manager.queue_states import QueueState
from manager.commands.summaries import Summary, summary_of
from manager.console.charts import chart_of
from manager.console.commands import commands_for
from manager.console.estimate import Estimates
from manager.console.history import LINES, SAMPLES, History, Line, summed
from manager.console.journal import MOST, Journal
from manager.console.manifest_view import HIDDEN, LARGEST, manifest_text
from manager.console.rendering import FOLDER, age
from manager.console.rollout_view import progress_of, rollout_row
from manager.console.rows import row_of
from manager.console.samples import of_all
from manager.console.tenant_view import Node as Resource_
from manager.console.tree import DEEPEST, resource_nodes
from manager.kinds import KINDS
from tests.console.test_pages import WORD
from tests.rules.test_hints_can_be_pasted import fault

pytestmark = pytest.mark.criterion("U-16")


def entry_of(
    kind: type[Resource[Any, Any]],
    status: Mapping[str, Any],
    spec: Mapping[str, Any] | None = None,
    **metadata: object,
) -> Entry:
    """An object as the cache has it."""
    gvk = kind.gvk()
    named = {"name": "one", "namespace": "default" if kind.mapping().namespaced else ""}
    manifest = {
        "apiVersion": gvk.api_version,
        "kind": gvk.kind,
        "metadata": {**named, "creationTimestamp": "2026-11-23T10:00:00Z", **metadata},
        "spec": spec or {},
        "status": status,
    }
    return EntryDecoder(gvk).decode(orjson.dumps(manifest))


def states(kind: type[Resource[Any, Any]]) -> Iterator[dict[str, Any]]:
    """A status for every phase of a kind, every condition that it knows, and what waits for approval."""
    rules = RULES[kind.gvk().kind]
    phases = rules.phases
    words = [] if phases is None else [*phases.good, *phases.waiting, *phases.failing]
    yield from ({"phase": word} for word in words)
    if kind.gvk().kind == "TenantTemplate":
        rollout = RULES["FleetRollout"].phases
        assert rollout is not None
        yield from ({"rollout": {"phase": word}} for word in (*rollout.waiting, *rollout.failing))
    message = "3 wait; kubectl annotate tenancy.ctrlruntime.dev/allow-delete=0123456789abcdef"
    for name in (*rules.needed, *rules.unwanted, "DeletionsHeld", "Ready"):
        for status in ("True", "False"):
            condition = {"type": name, "status": status, "reason": "R", "message": message}
            yield {"conditions": [condition]}
    yield {"phase": "Waiting", "waiting": {"reason": "Approval"}}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.gvk().kind)
def test_what_to_run_next_can_be_pasted_in_every_state_of_every_kind(
    kind: type[Resource[Any, Any]],
) -> None:
    seen = set()
    for status in states(kind):
        entry = entry_of(kind, status)
        found = commands_for(entry, row_of(entry))
        assert found[-1][1].startswith(f"kubectl get {kind.mapping().plural}.")
        for why, command in found:
            seen.add(command)
            assert why
            assert command.startswith("kubectl ") or not fault(command), command
            assert ("-n default" in command) == (
                kind.mapping().namespaced and "freeze" not in command
            )
    held = f"manager approve {kind.gvk().kind.lower()}/one --digest 0123456789abcdef"
    assert any(each.startswith(held) for each in seen)


def test_a_name_is_one_word_of_a_command() -> None:
    name = "a; rm -rf $HOME `id` 'x'"
    for kind in KINDS:
        entry = entry_of(kind, {"phase": "Failed"}, name=name)
        for _, command in commands_for(entry, row_of(entry)):
            words = shlex.split(command)
            assert not {"rm", "-rf", ";"} & {*words}, command


def filled(schema: Mapping[str, Any], name: str = "") -> Json:
    """A value of a schema with the secret wherever a field takes anything, a map of texts, or has the name of a secret."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return {"kind": "Secret", "data": {"a": WORD}, WORD: [WORD]}
    if "properties" in schema:
        return {key: filled(each, key) for key, each in schema["properties"].items()}
    of_any = schema.get("additionalProperties")
    if isinstance(of_any, Mapping):
        value = "plain" if name in SELECTS else WORD
        return {"key": value if of_any.get("type") == "string" else filled(of_any)}
    if schema.get("type") == "array":
        return [filled(schema.get("items") or {}, name)]
    return {"integer": 1, "number": 1.5, "boolean": True}.get(schema.get("type", ""), "plain")


SELECTS = {"labels", "labelsTemplate", "matchLabels", "podLabels", "nodeSelector", "selector"} | {
    "claimSelector",
    "volumeSnapshotSelector",
}


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.gvk().kind)
def test_no_manifest_of_any_kind_shows_what_its_schema_leaves_open(
    kind: type[Resource[Any, Any]],
) -> None:
    properties = open_api_schema(kind)[0]["properties"]
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": f'{{"data": "{WORD}"}}',
        "other.example.com/last-applied": WORD,
        "example.com/list": f' ["{WORD}"]',
        "example.com/password": WORD,
    }
    spec, status = filled(properties["spec"]), filled(properties["status"])
    entry = entry_of(kind, status, spec, annotations=annotations)
    text, is_cut = manifest_text(entry)
    assert WORD not in text
    assert "plain" in text
    assert HIDDEN in text
    assert not is_cut
    assert f"kind: {kind.gvk().kind}" in text


def test_a_password_in_an_address_is_not_shown_and_a_large_object_is_cut() -> None:
    kind = KINDS[-1]
    message = f"https://user:{WORD}@example.com/x does not answer"
    condition = {"type": "Ready", "status": "False", "reason": "R", "message": message}
    text, _ = manifest_text(entry_of(kind, {"conditions": [condition]}))
    assert WORD not in text
    assert "https://user:" in text
    many = [{**condition, "type": f"T{number}", "message": "'<&" * 300} for number in range(200)]
    text, is_cut = manifest_text(entry_of(kind, {"conditions": many}))
    assert is_cut
    assert len(text) <= LARGEST


def test_the_hour_of_the_charts_is_bounded_whatever_there_is_to_count() -> None:
    history = History()
    for step in range(3 * SAMPLES):
        history.sample({(("fleet", f"kind-{n}"), str(step % 7)): 1.0 for n in range(2 * LINES)})
        assert len(history) <= LINES
    held = sum(len(ring) * ring.itemsize for ring in history._rings.values())
    assert held <= LINES * SAMPLES * 8
    for _ in range(SAMPLES):
        history.sample({})
    assert len(history) == 0


def test_the_items_of_a_queue_are_those_of_all_clusters() -> None:
    counts: dict[str, Any] = {"depth": 2, "waiting": 3, "processing": 1}
    rest = dict.fromkeys((each.name for each in fields(QueueState)), 0)
    states = [QueueState(**{**rest, **counts, "name": "Tenant", "cluster": c}) for c in ("", "b")]
    assert of_all([], states) == {(("queue", "Tenant"), "items"): 12.0}


def test_lines_have_gaps_where_nothing_was_counted_and_are_summed_by_name() -> None:
    history = History()
    for value in (1.0, 2.0, None, 4.0):
        history.sample({} if value is None else {(("a",), "x"): value, (("b",), "x"): 10.0})
    (line,) = history.lines(("a",))
    assert [None if isnan(each) else each for each in line.values] == [1.0, 2.0, None, 4.0]
    (total,) = summed([history.lines(("a",)), history.lines(("b",)), []])
    assert total.last == 14.0
    chart = chart_of("Things", [line])
    assert chart is not None
    assert [len(part.split()) for part in chart.lines[0].parts] == [2, 1]
    assert chart.label == "Things: x 4"
    assert chart_of("Things", [Line("x", (1.0,))]) is None


def test_the_journal_is_bounded_and_counts_what_repeats() -> None:
    journal = Journal(lambda: "2026-11-23T10:00:00Z")
    regarding = {"kind": "Tenant", "namespace": "n", "name": "a"}
    for number in range(3 * MOST):
        journal.recorded(regarding, "Normal", "Applied", "x" * 10_000 + str(number % 2))
        journal.recorded({**regarding, "name": f"b-{number}"}, "Warning", "Failed", "why")
    found = list(journal.all())
    assert len(found) <= 2 * MOST
    assert max(len(each.text) for each in found) <= 300
    assert [each.count for each in journal.of("Tenant", "n", "a")] == [3 * MOST]
    one = Summary(kind="Tenant", namespace="n", name="c", state="Ready", health=Health.GOOD)
    journal.changed(one, one)
    assert not list(journal.of("Tenant", "n", "c"))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("2026-11-23T09:59:15Z", "45s"),
        ("2026-11-23T09:48:00.123456Z", "11m"),
        ("2026-11-23T06:40:00Z", "3h20m"),
        ("2026-11-21T07:00:00Z", "2d3h"),
        ("2026-10-01T10:00:00Z", "53d"),
        ("2026-11-23T10:10:00Z", "in 10m"),
        ("2026-11-23T10:00:01Z", "0s"),
        ("<b>", ""),
    ],
)
def test_ages_are_short(text: str, shown: str) -> None:
    assert age(text, datetime(2026, 11, 23, 10, tzinfo=UTC)) == shown


def test_the_script_is_short_and_needs_no_framework() -> None:
    text = (FOLDER / "static" / "console.js").read_text()
    assert len(text.splitlines()) <= 500
    assert "import" not in text
    assert "innerHTML" not in text


def decoded(manifest: Mapping[str, Json]) -> Entry:
    gvk = GroupVersionKind.of(manifest)
    return EntryDecoder(gvk).decode_manifest(dict(manifest))


STATUSES: tuple[Json, ...] = (
    [], "x", {"conditions": "x"}, {"conditions": ["x", None]}, {"run": "x"}, {"run": {"attempt": "x"}},
    {"unmanaged": "many"}, {"pendingRemovals": ["x"]}, {"assignedVersion": "x"}, {"waiting": "x"},
)  # fmt: skip


@pytest.mark.criterion("S-F2")
@pytest.mark.parametrize("kind", KINDS)
def test_a_status_of_other_types_is_the_trouble_of_its_row_alone(
    kind: type[Resource[Any, Any]],
) -> None:
    gvk = kind.gvk()
    for status in STATUSES:
        head = {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "1", "generation": 1}
        manifest = {"apiVersion": gvk.api_version, "kind": gvk.kind, "metadata": head}
        manifest |= {"spec": {}, "status": status}
        row = row_of(decoded(manifest))
        assert (row.summary.name, row.summary.is_good) == ("a", False)
        rollout = decoded({**manifest, "kind": "FleetRollout", "status": {"updated": status}})
        assert progress_of(rollout) is None
        assert rollout_row(rollout, Estimates(), 0.0) is None
        assert not summary_of(manifest).is_good


@pytest.mark.criterion("S-F2")
def test_a_tenant_with_hundreds_of_resources_in_a_row_has_a_page() -> None:
    def resource(number: int) -> Resource_:
        needs = (f"r{number - 1}",) if number else ()
        return Resource_(
            id=f"r{number}", kind="ConfigMap", state="Ready", why="", level=number, needs=needs, waits_for=(),
        )  # fmt: skip

    nodes, depth = resource_nodes([resource(number) for number in range(480)]), 0
    while nodes:
        nodes, depth = nodes[0].children, depth + 1
    assert depth == DEEPEST

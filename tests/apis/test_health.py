"""Every kind's state by phase and conditions: what was not observed is never good (U1, U3)."""

from __future__ import annotations

from typing import Any

import pytest

from apis.health import NOT_OBSERVED, RULES, Health, state_of
from manager.kinds import KINDS
from tests.docs.blocks import table, words
from tests.support.statuses import whole

pytestmark = pytest.mark.criterion("U-1")

GENERATION = 3
NAMES = [kind.__name__ for kind in KINDS]
SUBRESOURCES = [name for name in NAMES if RULES[name] is RULES["InstanceTerraform"]]
GROUPS = {
    "subresources": SUBRESOURCES,
    "Instance and subresources": ["Instance", *SUBRESOURCES],
    "Instance and subresources, on a data plane": ["Instance", *SUBRESOURCES],
    "all three, on a data plane": ["CosmosFullNode", "ScheduledVolumeSnapshot", "StatefulJob"],
    "all": [kind.__name__ for kind in KINDS if kind.gvk().group.startswith("tenancy")],
    "Tenant, on a data plane": ["Tenant"],
    "Tenant with workloads on the hub": ["Tenant"],
}


def kinds_of(cell: str) -> list[str]:
    """The kinds of the first cell of a row."""
    parts = [cell] if cell in GROUPS else cell.split(", ")
    return [kind for part in parts for kind in GROUPS.get(part, [part])]


def made(kind: str, conditions: list[dict[str, Any]], **status: object) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "default", "generation": GENERATION}
    fields = {"observedGeneration": GENERATION, "conditions": conditions, **status}
    return {"kind": kind, "metadata": metadata, "status": fields}


def condition(name: str, status: str, reason: str = "Any", **more: object) -> dict[str, Any]:
    return {"type": name, "status": status, "reason": reason, "message": f"{name} {reason}", **more}


def good(kind: str) -> dict[str, Any]:
    phases = RULES[kind].phases
    phase = {} if phases is None else {"phase": min(phases.good)}
    conditions = whole(kind, {"conditions": [condition("Ready", "True")]})["conditions"]
    return made(kind, conditions, **phase)


def documented() -> list[tuple[str, str, frozenset[str], frozenset[str]]]:
    """Return kind, condition, and the reasons of True and of False, of the tables of docs/tenancy.md."""
    return [
        (kind, name.strip("`"), frozenset(words(true)), frozenset(words(false)))
        for kinds, name, true, false in table("docs/tenancy.md", "conditions")
        for kind in kinds_of(kinds)
    ]


@pytest.mark.parametrize("kind", NAMES)
def test_every_kind_has_rules_and_a_good_state(kind: str) -> None:
    assert state_of(good(kind)).health is Health.GOOD


@pytest.mark.parametrize("kind", NAMES)
def test_what_was_not_observed_is_not_good(kind: str) -> None:
    old = good(kind)
    old["metadata"]["generation"] = GENERATION + 1
    stale = good(kind)
    stale["status"]["conditions"][0]["observedGeneration"] = GENERATION - 1
    word = good(kind)
    word["status"]["phase"] = "Wonderful"
    bare = {"kind": kind, "metadata": {"generation": GENERATION}}
    undated = good(kind)
    del undated["status"]["observedGeneration"]
    restored = good(kind)
    restored["metadata"]["generation"] = 1
    lower = made(kind, [condition("Ready", "true")])
    without = made(kind, [])
    doubt = made(kind, [condition("Ready", "Unknown")])
    missing = (bare, without, {**bare, "status": {}}, undated)
    for each in (old, stale, restored, doubt, lower, *missing):
        assert state_of(each).health is Health.UNKNOWN, each
    if RULES[kind].phases is not None:
        assert state_of(word).health is Health.UNKNOWN
        wiped = good(kind)
        del wiped["status"]["conditions"]
        assert state_of(wiped).word == NOT_OBSERVED


@pytest.mark.parametrize("kind", NAMES)
def test_a_status_that_lost_a_condition_of_every_pass_is_not_good(kind: str) -> None:
    """Wiped by hand, say, beside Ready that is True. What is known to be bad stays what is shown."""
    for name in RULES[kind].always:
        wiped = good(kind)
        conditions = wiped["status"]["conditions"]
        conditions[:] = [each for each in conditions if each["type"] != name]
        found = state_of(wiped)
        assert (found.word, found.health) == (NOT_OBSERVED, Health.UNKNOWN), name
        assert found.message == f"The status has no {name}."
        conditions[0]["status"] = "False"
        assert state_of(wiped).health is Health.FAILING, name


@pytest.mark.parametrize("kind", NAMES)
def test_ready_false_is_not_good_whatever_the_phase_says(kind: str) -> None:
    manifest = good(kind)
    manifest["status"]["conditions"][0]["status"] = "False"
    found = state_of(manifest)
    assert (found.health, found.word) == (Health.FAILING, "Any")


@pytest.mark.parametrize(("kind", "name", "true", "false"), documented())
def test_each_documented_condition_of_tenancy_is_read(
    kind: str, name: str, true: frozenset[str], false: frozenset[str]
) -> None:
    """One of the two statuses of each condition is not good, and no rule names what is not documented."""
    rules = RULES[kind]
    seen = {}
    for status, reasons in (("True", true), ("False", false)):
        for reason in reasons:
            manifest = good(kind)
            others = [each for each in manifest["status"]["conditions"] if each["type"] != name]
            manifest["status"]["conditions"] = [*others, condition(name, status, reason)]
            seen[status, reason] = state_of(manifest)
    bad = {status for (status, _), found in seen.items() if found.health is not Health.GOOD}
    assert len(bad) == 1, seen
    assert all(
        found.health is not Health.GOOD for (status, _), found in seen.items() if status in bad
    )
    assert set(rules.needed.get(name, {})) <= true | false


@pytest.mark.parametrize("caption", ["cloud conditions", "cosmos conditions", "fleet conditions"])
def test_no_documented_condition_is_unknown(caption: str) -> None:
    for kinds, name, _ in table("docs/conditions.md", caption):
        for kind in kinds_of(kinds):
            assert RULES[kind].meets(name.strip("`")), (kind, name)


@pytest.mark.parametrize(
    ("kind", "phase"),
    [
        ("CosmosFullNode", "Progressing"),
        ("ScheduledVolumeSnapshot", "WaitingForSnapshotCreation"),
    ],
)
def test_what_a_phase_waits_for_is_shown_though_ready_is_true(kind: str, phase: str) -> None:
    waits = "Waiting for the VolumeSnapshot of a-0; the driver reports: no space"
    found = state_of(made(kind, [condition("Ready", "True")], phase=phase, status=waits))
    assert (found.word, found.health, found.message) == (phase, Health.WAITING, waits)


def test_failures_come_before_waits_and_tell_why() -> None:
    held = [condition("Ready", "True"), condition("DeletionsHeld", "True", "EmptyResult")]
    failed = [
        *held,
        condition("RowsValid", "False", "InvalidRows", lastTransitionTime="2026-01-01"),
    ]
    assert state_of(made("TenantRegistry", held)).word == "DeletionsHeld"
    found = state_of(made("TenantRegistry", failed))
    assert (found.word, found.health, found.message) == (
        "InvalidRows",
        Health.FAILING,
        "RowsValid InvalidRows",
    )
    assert found.since == "2026-01-01"


def test_an_object_that_goes_waits_and_tells_what_keeps_it() -> None:
    manifest = made(
        "Tenant", [condition("Ready", "True"), condition("RemovalPending", "True", "Held")]
    )
    manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = state_of(manifest)
    assert (found.word, found.health, found.message) == (
        "Deleting",
        Health.WAITING,
        "RemovalPending Held",
    )

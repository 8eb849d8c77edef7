"""SG-62: Argo CD shows health and progress of every kind, and can pause, resume and retry."""

from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from apis import cloud, cosmos, tenancy
from apis.health import RULES, Health, expected_conditions, state_of
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.generate.discovery import find_kinds, load
from ctrlruntime.json import Json
from tests.argocd.lua import evaluate
from tests.support.statuses import whole

ROOT: Final = Path(__file__).parents[2]
KINDS: Final = [
    kind.gvk() for kind in find_kinds(load(("apis.cloud", "apis.cosmos", "apis.tenancy")))
]
CLOUD: Final = [gvk for gvk in KINDS if gvk.group == cloud.GROUP and gvk.kind != "FleetRollout"]
COSMOS: Final = [gvk for gvk in KINDS if gvk.group == cosmos.GROUP]
TENANCY: Final = [gvk for gvk in KINDS if gvk.group == tenancy.GROUP]

pytestmark = pytest.mark.criterion("SG-62")


@pytest.fixture(scope="module")
def config_map() -> dict[str, str]:
    """The ConfigMap as it is shipped."""
    shipped = yaml.safe_load((ROOT / "config/argocd/argocd-cm.yaml").read_text())
    data: dict[str, str] = shipped["data"]
    return data


def obj(kind: str, *, generation: int = 3, **parts: Json) -> dict[str, Any]:
    metadata = {"name": "acme", "generation": generation, **parts.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, "spec": {}, **parts}


def health(config_map: dict[str, str], group: str, manifest: dict[str, Any]) -> tuple[str, str]:
    said = evaluate(
        config_map[f"resource.customizations.health.{group}_{manifest['kind']}"], manifest
    )
    return said["status"], said["message"]


def actions(config_map: dict[str, str], group: str, kind: str) -> tuple[str, dict[str, str]]:
    read = yaml.safe_load(config_map[f"resource.customizations.actions.{group}_{kind}"])
    return read["discovery.lua"], {each["name"]: each["action.lua"] for each in read["definitions"]}


def test_every_kind_has_health_and_actions(config_map: dict[str, str]) -> None:
    names = {f"{gvk.group}_{gvk.kind}" for gvk in KINDS}
    without_actions = {f"{cosmos.GROUP}_CosmosFullNode", f"{cloud.GROUP}_FleetRollout"}
    for part, expected in (("health", names), ("actions", names - without_actions)):
        prefix = f"resource.customizations.{part}."
        found = {key.removeprefix(prefix) for key in config_map if key.startswith(prefix)}
        assert found == expected


def test_no_script_uses_what_only_gopher_lua_has(config_map: dict[str, str]) -> None:
    for key, text in config_map.items():
        words = text.replace("\n", " ").split()
        assert "continue" not in words, key
        assert "goto" not in words, key


READY: Final = [{"type": "Ready", "status": "True"}]
CASES: Final = [
    ("nothing is known yet", {}, ("Progressing", "Waiting for the manager")),
    (
        "the change has not been seen",
        {"status": {"observedGeneration": 2, "phase": "Ready", "conditions": READY}},
        ("Progressing", "Waiting for the manager to see the change"),
    ),
    (
        "ready",
        {
            "status": {
                "observedGeneration": 3,
                "phase": "Ready",
                "message": "Runs 5.2.0.",
                "conditions": READY,
            }
        },
        ("Healthy", "Runs 5.2.0."),
    ),
    (
        "a phase that the condition does not bear out",
        {"status": {"observedGeneration": 3, "phase": "Ready", "message": "Almost."}},
        ("Progressing", "Almost."),
    ),
    (
        "failed",
        {"status": {"observedGeneration": 3, "phase": "Failed", "message": "No such zone."}},
        ("Degraded", "No such zone."),
    ),
    (
        "retrying",
        {"status": {"observedGeneration": 3, "phase": "Retrying", "message": "Attempt 2 failed."}},
        ("Progressing", "Attempt 2 failed."),
    ),
    (
        "paused",
        {"status": {"observedGeneration": 3, "phase": "Paused", "message": "Paused."}},
        ("Suspended", "Paused."),
    ),
    (
        "superseded",
        {
            "status": {
                "observedGeneration": 3,
                "phase": "Superseded",
                "message": "Replaced.",
                "conditions": [{"type": "Ready", "status": "False", "reason": "Superseded"}],
            }
        },
        ("Healthy", "Replaced."),
    ),
    (
        "extracted",
        {"status": {"observedGeneration": 3, "phase": "Extracted", "message": "Extracted."}},
        ("Suspended", "Extracted."),
    ),
    (
        "waiting for a place",
        {
            "status": {
                "observedGeneration": 3,
                "phase": "Waiting",
                "message": "Waits.",
                "waiting": {"reason": "Limit", "position": 4, "limit": 50},
            }
        },
        ("Progressing", "Waiting (Limit, position 4)"),
    ),
    (
        "waiting for another task",
        {
            "status": {
                "observedGeneration": 3,
                "phase": "Waiting",
                "waiting": {"reason": "InstanceBusy", "holder": "UpgradeInstanceTask/acme-1"},
            }
        },
        ("Progressing", "Waiting (InstanceBusy) behind UpgradeInstanceTask/acme-1"),
    ),
    (
        "a step without a sentence of its own",
        {
            "status": {
                "observedGeneration": 3,
                "phase": "Running",
                "taskConditions": [
                    {"type": "Started", "message": "Execution found, but not yet complete"},
                    {"type": "Created", "message": "New task execution created"},
                ],
            }
        },
        ("Progressing", "Started: Execution found, but not yet complete"),
    ),
    (
        "being deleted",
        {
            "metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"},
            "status": {"observedGeneration": 2, "phase": "Deleting", "message": "Tears down."},
        },
        ("Progressing", "Tears down."),
    ),
    (
        "just deleted",
        {
            "metadata": {"deletionTimestamp": "2026-01-02T03:04:05Z"},
            "status": {"observedGeneration": 3, "phase": "Ready", "conditions": READY},
        },
        ("Progressing", "Being deleted"),
    ),
]


@pytest.mark.parametrize("kind", [gvk.kind for gvk in CLOUD])
@pytest.mark.parametrize(
    ("parts", "expected"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_health_of_the_cloud_kinds(
    config_map: dict[str, str], kind: str, parts: dict[str, Any], expected: tuple[str, str]
) -> None:
    assert health(config_map, cloud.GROUP, obj(kind, **dict(parts))) == expected


@pytest.mark.parametrize("phase", list(cloud.Phase))
def test_every_phase_has_a_health(config_map: dict[str, str], phase: cloud.Phase) -> None:
    status = {"observedGeneration": 3, "phase": phase.value, "conditions": READY}
    word, message = health(config_map, cloud.GROUP, obj("Instance", status=status))
    assert word in {"Healthy", "Progressing", "Degraded", "Suspended"}
    assert message or word != "Progressing"


@pytest.mark.parametrize("phase", list(cloud.FleetRolloutPhase))
def test_every_phase_of_a_rollout_has_a_health(
    config_map: dict[str, str], phase: cloud.FleetRolloutPhase
) -> None:
    seen = whole("FleetRollout", {"observedGeneration": 3, "conditions": READY})
    status = {**seen, "phase": phase.value, "updated": 2, "total": 5}
    word, message = health(config_map, cloud.GROUP, obj("FleetRollout", status=status))
    degraded = {"Halted", "RollingBack", "RolledBack", "Invalid"}
    assert (word == "Degraded") is (phase.value in degraded)
    assert message == "2 of 5 instances have the version"


def condition(kind: str, status: str, message: str = "Because.") -> dict[str, str]:
    return {"type": kind, "status": status, "reason": "R", "message": message}


@pytest.mark.parametrize(
    ("kind", "conditions", "expected"),
    [
        ("Tenant", [condition("Ready", "True")], "Healthy"),
        ("Tenant", [condition("Ready", "False")], "Progressing"),
        ("Tenant", [condition("Ready", "False"), condition("Degraded", "True")], "Degraded"),
        ("Tenant", [condition("Ready", "True"), condition("Conflicted", "True")], "Degraded"),
        ("Tenant", [condition("Degraded", "False"), condition("Ready", "True")], "Healthy"),
        ("TenantTemplate", [condition("Valid", "True"), condition("Applied", "True")], "Healthy"),
        ("TenantTemplate", [condition("Applied", "False")], "Progressing"),
        (
            "TenantTemplate",
            [condition("Applied", "True"), condition("Valid", "False")],
            "Degraded",
        ),
        ("TenantRegistry", [condition("Ready", "True")], "Healthy"),
        ("TenantRegistry", [condition("Ready", "False")], "Degraded"),
        (
            "TenantRegistry",
            [condition("Ready", "True"), condition("DeletionsHeld", "True")],
            "Degraded",
        ),
        (
            "TenantRegistry",
            [condition("Ready", "True"), condition("DeletionsHeld", "False")],
            "Healthy",
        ),
    ],
)
def test_health_of_the_tenancy_kinds(
    config_map: dict[str, str], kind: str, conditions: list[dict[str, str]], expected: str
) -> None:
    status = whole(kind, {"observedGeneration": 3, "conditions": conditions})
    word, message = health(config_map, tenancy.GROUP, obj(kind, status=status))
    assert (word, message) == (expected, "Because.")


@pytest.mark.parametrize("kind", [gvk.kind for gvk in TENANCY])
def test_tenancy_kinds_not_reconciled_yet_are_progressing(
    config_map: dict[str, str], kind: str
) -> None:
    assert health(config_map, tenancy.GROUP, obj(kind))[0] == "Progressing"
    old = {"observedGeneration": 2, "conditions": [condition("Ready", "True")]}
    assert health(config_map, tenancy.GROUP, obj(kind, status=old))[0] == "Progressing"
    gone = obj(kind, status=old, metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"})
    assert health(config_map, tenancy.GROUP, gone) == ("Progressing", "Being deleted")


@pytest.mark.parametrize("kind", [gvk.kind for gvk in CLOUD])
class TestActionsOfTheCloudKinds:
    def offered(self, config_map: dict[str, str], manifest: dict[str, Any]) -> set[str]:
        discovery, _ = actions(config_map, cloud.GROUP, manifest["kind"])
        found = evaluate(discovery, manifest)
        return {name for name, action in found.items() if not action["disabled"]}

    def act(
        self, config_map: dict[str, str], manifest: dict[str, Any], action: str
    ) -> dict[str, Any]:
        _, definitions = actions(config_map, cloud.GROUP, manifest["kind"])
        changed: dict[str, Any] = evaluate(definitions[action], manifest)
        return changed

    def test_pause_and_resume(self, config_map: dict[str, str], kind: str) -> None:
        manifest = obj(kind)
        assert self.offered(config_map, manifest) == {"pause"}
        paused = self.act(config_map, manifest, "pause")
        assert paused["metadata"]["annotations"] == {"cloud.ctrlruntime.dev/paused": "true"}
        assert self.offered(config_map, paused) == {"resume"}
        assert "annotations" not in {
            key
            for key, value in self.act(config_map, paused, "resume")["metadata"].items()
            if value
        }

    def test_a_retry_has_a_value_that_was_not_handled_yet(
        self, config_map: dict[str, str], kind: str
    ) -> None:
        manifest = obj(kind, status={"phase": "Failed"})
        assert self.offered(config_map, manifest) == {"pause", "retry"}
        key = "cloud.ctrlruntime.dev/retry"
        for handled, expected in (("", "1"), ("1", "2"), ("7", "8"), ("by hand", "9")):
            manifest["status"]["lastHandledRetry"] = handled
            manifest = self.act(config_map, manifest, "retry")
            assert manifest["metadata"]["annotations"][key] == expected

    def test_nothing_else_is_changed(self, config_map: dict[str, str], kind: str) -> None:
        manifest = obj(
            kind,
            metadata={"annotations": {"note": "kept"}, "labels": {"a": "b"}},
            status={"phase": "Failed"},
        )
        for action in ("pause", "resume", "retry"):
            changed = self.act(config_map, manifest, action)
            annotations = changed["metadata"].pop("annotations")
            assert annotations.pop("note") == "kept"
            assert set(annotations) <= {
                "cloud.ctrlruntime.dev/paused",
                "cloud.ctrlruntime.dev/retry",
            }
            rest = {"name": "acme", "generation": 3, "labels": {"a": "b"}}
            assert changed["metadata"] == rest
            assert changed["status"] == manifest["status"]


@pytest.mark.parametrize("kind", [gvk.kind for gvk in TENANCY])
def test_tenancy_kinds_can_be_looked_at_now(config_map: dict[str, str], kind: str) -> None:
    discovery, definitions = actions(config_map, tenancy.GROUP, kind)
    assert evaluate(discovery, obj(kind)) == {"reconcile": {"disabled": False}}
    key = "ctrlruntime.dev/reconcile-now"
    changed = evaluate(definitions["reconcile"], obj(kind))
    assert changed["metadata"]["annotations"] == {key: "1"}
    changed["status"] = {"lastHandledReconcile": "1"}
    assert evaluate(definitions["reconcile"], changed)["metadata"]["annotations"] == {key: "2"}


@pytest.mark.criterion("U-1")
@pytest.mark.parametrize("gvk", KINDS, ids=lambda gvk: gvk.kind)
def test_nothing_is_healthy_that_the_summary_does_not_show_as_good(
    config_map: dict[str, str], gvk: GroupVersionKind
) -> None:
    """Each condition that is not as it should be, beside a status that is good in all else."""
    phase = RULES[gvk.kind].phases
    good = {"phase": max(phase.good)} if phase else {}
    answers = [condition(each, "True") for each in (*RULES[gvk.kind].answers, "Ready")]
    answers = whole(gvk.kind, {"conditions": answers})["conditions"]
    seen = {"observedGeneration": 3, **good}
    restored = {**seen, "observedGeneration": 4, "conditions": answers}
    wiped = [
        {**seen, "conditions": [each for each in answers if each["type"] != name]}
        for name in RULES[gvk.kind].always
    ]
    complete = obj(gvk.kind, status={**seen, "conditions": answers})
    assert health(config_map, gvk.group, complete)[0] in {"Healthy", "Suspended"}
    for unseen in (seen, {**seen, "conditions": []}, restored, *wiped):
        manifest = obj(gvk.kind, status=unseen)
        assert state_of(manifest).health is Health.UNKNOWN
        assert health(config_map, gvk.group, manifest)[0] != "Healthy"
    expected = expected_conditions(gvk.kind)
    assert {"SlotsOwned", "DisksFull"} <= set(expected) or gvk.kind != "CosmosFullNode"
    for name, each in expected.items():
        bad = condition(name, "False" if each.status == "True" else "True", "Look here.")
        others = [item for item in answers if item["type"] != name]
        status = {**seen, "conditions": [*others, bad]}
        manifest = obj(gvk.kind, status=status)
        assert state_of(manifest).health is not Health.GOOD, name
        word, _ = health(config_map, gvk.group, manifest)
        assert word != "Healthy", name
        failing = (
            state_of(manifest).health is Health.FAILING and name != "Applied"
        )  # that waits for tenants
        assert word == "Degraded" or not failing, name


SEEN: Final = {"observedGeneration": 3}


@pytest.mark.parametrize("kind", [gvk.kind for gvk in COSMOS])
def test_cosmos_kinds_not_reconciled_yet(config_map: dict[str, str], kind: str) -> None:
    waits = ("Progressing", "Waiting for the manager")
    assert health(config_map, cosmos.GROUP, obj(kind)) == waits
    stale = obj(kind, status={"observedGeneration": 2, "phase": "Complete"})
    assert health(config_map, cosmos.GROUP, stale)[0] == "Progressing"
    gone = obj(kind, metadata={"deletionTimestamp": "2026-01-02T03:04:05Z"}, status=SEEN)
    assert health(config_map, cosmos.GROUP, gone) == ("Progressing", "Being deleted")


@pytest.mark.parametrize("phase", list(cosmos.FullNodePhase))
def test_health_of_a_set_of_nodes_by_phase(
    config_map: dict[str, str], phase: cosmos.FullNodePhase
) -> None:
    words = {"Complete": "Healthy", "Error": "Degraded"}
    seen = whole("CosmosFullNode", {**SEEN, "conditions": READY})
    status = {**seen, "phase": phase.value, "status": "Says so."}
    said = health(config_map, cosmos.GROUP, obj("CosmosFullNode", status=status))
    assert said == (words.get(phase.value, "Progressing"), "Says so.")


def test_a_blocked_rollout_reports_what_it_waits_for(config_map: dict[str, str]) -> None:
    rollout = {"outdated": 2, "blocked": "Node 3 is not in sync."}
    status = {**SEEN, "phase": "Progressing", "status": "Rolls.", "rollout": rollout}
    said = health(config_map, cosmos.GROUP, obj("CosmosFullNode", status=status))
    assert said == ("Progressing", "Node 3 is not in sync.")


FAILED: Final = {"name": "j-1", "outcome": "Failed", "message": "No space."}
LOST: Final = {"name": "j-1", "outcome": "Lost"}


@pytest.mark.parametrize(
    ("kind", "spec", "status", "expected"),
    [
        ("ScheduledVolumeSnapshot", {}, {"status": "Waits."}, ("Healthy", "Waits.")),
        (
            "ScheduledVolumeSnapshot",
            {},
            {"lastSnapshot": {"name": "s-1", "failed": "Too late."}},
            ("Degraded", "Too late."),
        ),
        (
            "ScheduledVolumeSnapshot",
            {},
            {"conditions": [condition("CRDsAvailable", "False", "Install them.")]},
            ("Degraded", "Install them."),
        ),
        (
            "ScheduledVolumeSnapshot",
            {"suspend": True},
            {"status": "Suspended.", "lastSnapshot": {"name": "s-1", "failed": "Too late."}},
            ("Suspended", "Suspended."),
        ),
        ("StatefulJob", {}, {"status": "Waits.", "jobHistory": []}, ("Healthy", "Waits.")),
        ("StatefulJob", {}, {"jobHistory": [FAILED]}, ("Degraded", "No space.")),
        ("StatefulJob", {}, {"jobHistory": [LOST, FAILED]}, ("Degraded", "Job j-1: Lost")),
        (
            "StatefulJob",
            {},
            {"status": "Runs.", "jobHistory": [{"name": "j-2", "outcome": "Running"}, FAILED]},
            ("Healthy", "Runs."),
        ),
    ],
)
def test_health_of_what_runs_regularly(
    config_map: dict[str, str],
    kind: str,
    spec: dict[str, Any],
    status: dict[str, Any],
    expected: tuple[str, str],
) -> None:
    status = whole(kind, {**SEEN, "conditions": READY, **status})
    manifest = obj(kind, status=status) | {"spec": spec}
    assert health(config_map, cosmos.GROUP, manifest) == expected


@pytest.mark.parametrize("kind", ["ScheduledVolumeSnapshot", "StatefulJob"])
def test_what_runs_regularly_is_suspended_and_resumed(
    config_map: dict[str, str], kind: str
) -> None:
    discovery, definitions = actions(config_map, cosmos.GROUP, kind)
    manifest = obj(kind) | {"spec": {"schedule": "@daily"}}
    offered = evaluate(discovery, manifest)
    assert offered == {"suspend": {"disabled": False}, "unsuspend": {"disabled": True}}
    suspended = evaluate(definitions["suspend"], manifest)
    assert suspended == manifest | {"spec": {"schedule": "@daily", "suspend": True}}
    assert evaluate(discovery, suspended)["suspend"] == {"disabled": True}
    assert evaluate(definitions["unsuspend"], suspended) == manifest

"""Write the Grafana dashboards of config/grafana from the tables of this file: `python -m hack.dashboards [--check]`.

One line is one panel: title, unit, description, and the queries with their legends. `cloud-tasks.json` is kept by hand.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parents[1] / "config" / "grafana"
WIDTH, HEIGHT, COLUMNS = 8, 8, 3
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
Query = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Panel:
    """One graph. `queries` are pairs of expression and legend."""

    title: str
    unit: str
    description: str
    queries: tuple[Query, ...]


def _one(title: str, unit: str, description: str, expr: str, legend: str = "") -> Panel:
    return Panel(title, unit, description, ((expr, legend or title),))


def _quantile(name: str, by: str) -> str:
    return f"histogram_quantile(0.99, sum by (le, {by}) (rate({name}_bucket[5m])))"


RUNTIME: Final = (
    _one(
        "Reconciles",
        "reqps",
        "Reconciliations a second, by controller and outcome.",
        "sum by (controller, result) (rate(controller_runtime_reconcile_total[5m]))",
        "{{controller}} {{result}}",
    ),
    _one(
        "Reconciles that failed",
        "reqps",
        "A constant rate is one object that cannot be reconciled, or a bug.",
        "sum by (controller) (rate(controller_runtime_reconcile_errors_total[5m]))",
        "{{controller}}",
    ),
    _one(
        "Length of reconciles",
        "s",
        "99 of 100 are shorter.",
        _quantile("controller_runtime_reconcile_time_seconds", "controller"),
        "{{controller}}",
    ),
    _one(
        "Queues",
        "short",
        "Items that are ready and wait for a worker.",
        "sum by (controller) (workqueue_depth)",
        "{{controller}}",
    ),
    _one(
        "Time in the queue",
        "s",
        "99 of 100 waited less.",
        _quantile("workqueue_queue_duration_seconds", "controller"),
        "{{controller}}",
    ),
    _one(
        "Longest run in progress",
        "s",
        "One that does not end holds a worker.",
        "max by (controller) (workqueue_longest_running_processor_seconds)",
        "{{controller}}",
    ),
    _one(
        "Requests to the API server",
        "reqps",
        "By method and answer. None but watches while nothing changes.",
        "sum by (method, code) (rate(rest_client_requests_total[5m]))",
        "{{method}} {{code}}",
    ),
    _one(
        "Length of requests",
        "s",
        "99 of 100 are shorter.",
        _quantile("rest_client_request_duration_seconds", "verb"),
        "{{verb}}",
    ),
    _one(
        "Objects in the cache",
        "short",
        "By kind.",
        "max by (kind) (ctrlruntime_informer_objects)",
        "{{kind}}",
    ),
    _one(
        "Watches",
        "ops",
        "Lists read again and watches taken up again.",
        "sum by (kind) (rate(ctrlruntime_informer_relists_total[5m]))",
        "{{kind}}",
    ),
    _one(
        "Event loop",
        "s",
        "How late a timer ran: 99 of 100 are below.",
        "histogram_quantile(0.99, sum by (le) (rate(ctrlruntime_loop_stall_seconds_bucket[5m])))",
        "stall",
    ),
    Panel(
        "Processor and memory",
        "short",
        "Cores in use, and GiB of resident memory.",
        (
            ("sum by (pod) (rate(process_cpu_seconds_total[5m]))", "{{pod}} cores"),
            ("sum by (pod) (process_resident_memory_bytes) / 1073741824", "{{pod}} GiB"),
        ),
    ),
    _one(
        "Leader",
        "short",
        "1 for the process that leads.",
        "max by (pod, name) (leader_election_master_status)",
        "{{pod}} {{name}}",
    ),
    _one(
        "Active freezes",
        "short",
        "1 while a ChangeFreeze is active.",
        "max by (freeze) (change_freeze_active)",
        "{{freeze}}",
    ),
    _one(
        "Changes held by freezes",
        "short",
        "By freeze and system.",
        "sum by (freeze, system) (change_freeze_held_changes)",
        "{{freeze}} {{system}}",
    ),
)

TENANCY: Final = (
    Panel(
        "Tenants",
        "short",
        "By registry.",
        (
            ("sum by (namespace, registry) (registry_desired)", "{{registry}} desired"),
            ("sum by (namespace, registry) (registry_ready)", "{{registry}} ready"),
        ),
    ),
    _one(
        "Failed tenants",
        "short",
        "Tenants with a resource that failed.",
        "sum by (namespace, registry) (registry_failed)",
        "{{registry}}",
    ),
    _one(
        "Rows",
        "short",
        "By what became of them.",
        "sum by (registry, state) (registry_rows)",
        "{{registry}} {{state}}",
    ),
    _one(
        "Queries of the source",
        "reqps",
        "By registry and result.",
        "sum by (registry, result) (rate(registry_query_duration_seconds_count[15m]))",
        "{{registry}} {{result}}",
    ),
    _one(
        "Length of queries",
        "s",
        "99 of 100 are shorter.",
        _quantile("registry_query_duration_seconds", "registry"),
        "{{registry}}",
    ),
    _one(
        "Deletions held by the guard",
        "short",
        "1 while a registry's deletions wait for approval.",
        'max by (namespace, registry) (registry_condition_status{type="DeletionsHeld"} == bool 1)',
        "{{registry}}",
    ),
    _one(
        "Removals pending",
        "short",
        "Tenants with an object that is still to be removed.",
        "sum by (namespace, registry) (registry_removals_pending)",
        "{{registry}}",
    ),
    _one(
        "Changes that wait",
        "short",
        "For a freeze or a window, by registry.",
        "sum by (registry, reason) (registry_changes_waiting)",
        "{{registry}} {{reason}}",
    ),
    _one(
        "Rollouts of templates",
        "short",
        "Tenants by template and state.",
        "sum by (template, state) (tenanttemplate_rollout_tenants)",
        "{{template}} {{state}}",
    ),
    _one(
        "Phase of rollouts",
        "short",
        "1 for the phase of a template's rollout.",
        "max by (template, phase) (tenanttemplate_rollout_phase) > 0",
        "{{template}} {{phase}}",
    ),
    _one(
        "Halted rollouts",
        "short",
        "1 while the rollout of a template is halted.",
        "max by (namespace, template) (tenanttemplate_rollout_halted)",
        "{{template}}",
    ),
    _one(
        "Health checks of rollouts",
        "short",
        "1 for the state of a health check of a template's rollout.",
        "max by (template, check, state) (tenanttemplate_rollout_health_check) > 0",
        "{{template}} {{check}} {{state}}",
    ),
    _one(
        "Writes of resources",
        "ops",
        "By kind and result.",
        "sum by (kind, result) (rate(apply_attempts_total[5m]))",
        "{{kind}} {{result}}",
    ),
    _one(
        "Removed resources",
        "ops",
        "Deleted, or retained without their tenant.",
        "sum by (result) (rate(tenant_resources_removed_total[5m]))",
        "{{result}}",
    ),
    Panel(
        "Tenants that are not ready",
        "short",
        "Resources that failed or are in conflict, of the tenants with series of their own.",
        (
            ("topk(10, tenant_resources_failed > 0)", "{{tenant}} failed"),
            ("topk(10, tenant_resources_conflicted > 0)", "{{tenant}} in conflict"),
        ),
    ),
    _one(
        "Tenants without series",
        "short",
        "Not ready, and beyond the cap of series.",
        "max(tenant_series_hidden)",
        "hidden",
    ),
)

CLOUD_ROLLOUTS: Final = (
    _one(
        "Instances by version",
        "short",
        "By deployed version.",
        "sum by (version) (cloud_instances)",
        "{{version}}",
    ),
    _one(
        "Instances by phase",
        "short",
        "Failed and Retrying need a look.",
        "sum by (phase) (cloud_instances)",
        "{{phase}}",
    ),
    _one(
        "Instances by type",
        "short",
        "By the label instance-type.",
        "sum by (type) (cloud_instances)",
        "{{type}}",
    ),
    _one(
        "Rollouts",
        "short",
        "Instances by rollout, version and state.",
        "sum by (rollout, version, state) (cloud_rollout_instances)",
        "{{rollout}} {{version}} {{state}}",
    ),
    _one(
        "Waves",
        "short",
        "Instances of each wave: selected, updated, ready.",
        "sum by (rollout, wave, state) (cloud_rollout_wave_instances)",
        "{{rollout}} {{wave}} {{state}}",
    ),
    _one(
        "Phase of rollouts",
        "short",
        "1 for the phase of a FleetRollout.",
        "max by (rollout, phase) (cloud_rollout_phase) > 0",
        "{{rollout}} {{phase}}",
    ),
    _one(
        "Halted rollouts",
        "short",
        "1 while a FleetRollout is halted by failures.",
        "max by (namespace, rollout) (cloud_rollout_halted)",
        "{{rollout}}",
    ),
    _one(
        "Health checks of rollouts",
        "short",
        "1 for the state of a health check of a FleetRollout.",
        "max by (rollout, check, state) (cloud_rollout_health_check) > 0",
        "{{rollout}} {{check}} {{state}}",
    ),
)

COSMOS: Final = (
    _one(
        "Sets of nodes",
        "short",
        "By phase.",
        "sum by (phase) (cosmos_fullnode_sets)",
        "{{phase}}",
    ),
    _one(
        "Nodes",
        "short",
        "By what they last answered.",
        "sum by (state) (cosmos_cache_nodes)",
        "{{state}}",
    ),
    Panel(
        "Rollouts",
        "short",
        "Pods that are to be replaced, that may be replaced now, and sets that wait for a node to recover or are halted by failures.",
        (
            ("sum(cosmos_rollout_outdated_pods)", "outdated Pods"),
            ("sum(cosmos_rollout_budget_pods)", "budget"),
            ("sum(cosmos_rollout_blocked_sets)", "blocked sets"),
            ("sum(cosmos_rollout_halted_sets)", "halted sets"),
        ),
    ),
    _one(
        "Objects that differed",
        "ops",
        "By kind and operation.",
        "sum by (kind, operation) (rate(cosmos_diff_total[5m]))",
        "{{kind}} {{operation}}",
    ),
    _one(
        "Age of answers",
        "s",
        "Of the oldest answer of a node.",
        "max(cosmos_cache_age_seconds)",
        "age",
    ),
    Panel(
        "Questions to nodes",
        "reqps",
        "Answered, failed and discarded.",
        (
            ("sum by (question) (rate(cosmos_cache_questions_total[5m]))", "{{question}}"),
            (
                "sum by (question, reason) (rate(cosmos_cache_errors_total[5m]))",
                "{{question}} {{reason}}",
            ),
            ("sum(rate(cosmos_cache_discarded_total[5m]))", "discarded"),
        ),
    ),
    _one(
        "Length of questions",
        "s",
        "99 of 100 are shorter.",
        _quantile("cosmos_cache_question_seconds", "question"),
        "{{question}}",
    ),
    Panel(
        "Questions in progress",
        "short",
        "Under way, and waiting for their turn.",
        (
            ("sum(cosmos_cache_under_way)", "under way"),
            ("sum(cosmos_cache_waiting)", "waiting"),
        ),
    ),
    Panel(
        "Restarts by self-healing",
        "short",
        "Pods of nodes behind the others, and of nodes that did not answer any more, in an hour.",
        (
            ("sum(increase(cosmos_drift_restarts_total[1h]))", "height drift"),
            ("sum(increase(cosmos_unresponsive_restarts_total[1h]))", "no answer"),
        ),
    ),
    Panel(
        "Disks",
        "short",
        "Larger disks that were requested, and that could not be, in an hour; those that may not grow further.",
        (
            ("sum(increase(cosmos_autoscale_requests_total[1h]))", "requested"),
            ("sum(increase(cosmos_autoscale_failures_total[1h]))", "failed"),
            ("sum(cosmos_autoscale_disks_at_ceiling)", "at their ceiling"),
        ),
    ),
    Panel(
        "Snapshot schedules",
        "short",
        "By phase, and those whose last snapshot failed.",
        (
            ("sum by (phase) (cosmos_snapshot_schedules)", "{{phase}}"),
            ("sum(cosmos_snapshot_schedules_failing)", "failing"),
        ),
    ),
    _one(
        "Snapshots",
        "short",
        "That ended in a day, by result.",
        "sum by (result) (increase(cosmos_snapshots_total[1d]))",
        "{{result}}",
    ),
)

FLEET: Final = (
    _one(
        "Data planes",
        "short",
        "1 while a data plane answers.",
        "max by (namespace) (fleet_data_plane_up)",
        "{{namespace}}",
    ),
    _one(
        "Target namespaces",
        "short",
        "By result and reason.",
        "sum by (result, reason) (fleet_target_namespaces)",
        "{{result}} {{reason}}",
    ),
    _one(
        "Namespaces of the hub",
        "short",
        "10,000 are the most that are tested.",
        "max(fleet_hub_namespaces)",
        "namespaces",
    ),
    _one(
        "Objects of data planes",
        "short",
        "Objects on the hub, by the stack's Pod.",
        "sum by (pod) (fleet_data_plane_objects)",
        "{{pod}}",
    ),
    Panel(
        "Orphans",
        "short",
        "Tenants that are gone and have objects on the hub; held ones wait for approval.",
        (
            ("sum by (pod) (fleet_orphans)", "{{pod}}"),
            ("sum by (pod) (fleet_orphans_held)", "{{pod}} held"),
        ),
    ),
)

DASHBOARDS: Final = {
    "runtime": ("Runtime", RUNTIME),
    "tenancy": ("Tenancy", TENANCY),
    "cloud-rollouts": ("Cloud instances and rollouts", CLOUD_ROLLOUTS),
    "cosmos": ("Cosmos", COSMOS),
    "fleet": ("Scale mode", FLEET),
}


def dashboard(name: str) -> str:
    """Return the JSON of one dashboard."""
    title, panels = DASHBOARDS[name]
    made = {
        "uid": f"ctrlruntime-{name}",
        "title": title,
        "tags": ["ctrlruntime"],
        "timezone": "browser",
        "schemaVersion": 39,
        "refresh": "1m",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "type": "datasource",
                    "query": "prometheus",
                    "label": "Data source",
                }
            ]
        },
        "panels": [_panel(number, panel) for number, panel in enumerate(panels)],
    }
    return json.dumps(made, indent=2) + "\n"


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    row, column = divmod(number, COLUMNS)
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "description": panel.description,
        "datasource": _SOURCE,
        "gridPos": {"x": column * WIDTH, "y": row * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expr, "legendFormat": legend}
            for place, (expr, legend) in enumerate(panel.queries)
        ],
    }


def drifted() -> Iterator[Path]:
    """Yield the files that are not what the tables make."""
    for name in DASHBOARDS:
        path = FOLDER / f"{name}.json"
        if not path.exists() or path.read_text() != dashboard(name):
            yield path


def main() -> int:
    """Write the files, or with `--check` name those that have drifted."""
    if sys.argv[1:] == ["--check"]:
        found = [str(path) for path in drifted()]
        sys.stdout.write("".join(f"{path} has drifted\n" for path in found))
        return int(bool(found))
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(dashboard(name))
    return 0


if __name__ == "__main__":
    sys.exit(main())

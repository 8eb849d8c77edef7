"""Resource objects as the API writes them. The pages show the samples they are taken from."""

from __future__ import annotations

from typing import Any

from .fake_service import Run, Version, Workspace


def workspace_of(workspace: Workspace) -> dict[str, Any]:
    """Page `workspaces`, Show workspace."""
    running = workspace.current is not None and not workspace.current.ended
    by = workspace.locked_by
    holder = None
    if by is not None:
        holder = {"type": by[0], "id": by[1]}
    elif running and workspace.current is not None:
        holder = {"type": "runs", "id": workspace.current.identity}
    current = None if workspace.current is None else _pointer("runs", workspace.current.identity)
    state = None if workspace.outputs is None else _pointer("state-versions", "sv-1")
    return {
        "id": workspace.identity,
        "type": "workspaces",
        "attributes": {
            "name": workspace.name,
            "locked": holder is not None,
            "locked-reason": workspace.reason or None,
            "resource-count": workspace.resources,
            "vcs-repo": None,
            **workspace.attributes,
        },
        "relationships": {
            "project": {"data": _pointer("projects", workspace.project)},
            "locked-by": {"data": holder},
            "current-run": {"data": current},
            "current-state-version": {"data": state},
        },
    }


def holders_of(workspace: Workspace) -> list[dict[str, Any]]:
    """Page `workspaces`, Available Related Resources: `locked_by`."""
    if workspace.locked_by is None:
        return []
    kind, identity, name = workspace.locked_by
    attributes = {"name": name} if kind == "teams" else {"username": name}
    return [{"id": identity, "type": kind, "attributes": attributes}]


def version_of(version: Version) -> dict[str, Any]:
    """Page `configuration-versions`, Show."""
    return {
        "id": version.identity,
        "type": "configuration-versions",
        "attributes": {
            "auto-queue-runs": version.auto_queue,
            "error": None,
            "error-message": None,
            "status": version.status,
        },
    }


def run_of(run: Run, *, may_apply: bool = True) -> dict[str, Any]:
    """Page `run`, Get run details."""
    return {
        "id": run.identity,
        "type": "runs",
        "attributes": {
            "actions": {
                "is-cancelable": run.cancelable,
                "is-confirmable": run.confirmable,
                "is-discardable": run.discardable,
                "is-force-cancelable": False,
            },
            "created-at": run.created_at,
            "is-destroy": run.destroy,
            "message": run.message,
            "plan-only": run.plan_only,
            "status": run.status,
            "permissions": {"can-apply": may_apply},
        },
        "relationships": {
            "plan": {"data": _pointer("plans", f"plan-{run.identity}")},
            "apply": {"data": _pointer("applies", f"apply-{run.identity}")},
            "workspace": {"data": _pointer("workspaces", run.workspace.identity)},
        },
    }


def phases_of(run: Run, archive: str) -> list[dict[str, Any]]:
    """Pages `plans` and `applies`: included with a run."""
    numbers = {
        "resource-additions": run.additions,
        "resource-changes": run.changes,
        "resource-destructions": run.destructions,
        "log-read-url": f"{archive}/logs/{run.identity}",
    }
    plan = {"status": run.plan_status, **numbers}
    apply = {"status": run.apply_status, **numbers}
    return [
        {"id": f"plan-{run.identity}", "type": "plans", "attributes": plan},
        {"id": f"apply-{run.identity}", "type": "applies", "attributes": apply},
    ]


def output_of(
    workspace: Workspace, name: str, value: object, sensitive: bool, *, shown: bool
) -> dict[str, Any]:
    """Page `state-version-outputs`: lists show null for what is sensitive."""
    return {
        "id": f"wsout-{workspace.identity}.{name}",
        "type": "state-version-outputs",
        "attributes": {
            "name": name,
            "sensitive": sensitive,
            "type": "string",
            "value": value if shown or not sensitive else None,
        },
    }


def _pointer(kind: str, identity: str) -> dict[str, Any]:
    return {"type": kind, "id": identity}

"""What a plan is made of: templates, and tenants as they exist and as they should be."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ctrlruntime.rollout import Change
from internal.tenancy.rows.row import ActiveRow
from internal.tenancy.shared.tally import TenantState
from internal.tenancy.sync.change_progress import Judgement


@dataclass(frozen=True, slots=True)
class Template:
    """A template of the registry. `version` is anything that changes with its content.

    `created` is its creationTimestamp.
    """

    name: str
    version: str
    created: str = ""


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """The variables of a row as a tenant had them before a rollout changed it, with their revision."""

    revision: str
    variables: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class AdmittedRow:
    """What a tenant was last written with: the version of its template's content, its variables, the names of its sensitive ones."""

    content: str
    variables: Mapping[str, str]
    sensitive: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingTenant:
    """A tenant of the registry as it stands in the cluster.

    `sensitive` is the content of its Secret, None when that is unknown. `intact` is false when its
    spec was edited by hand, or its Secret was or is lost. `deleting` tenants only keep their name taken. `created` is its
    creationTimestamp. `replaced_by` are the names that it records as its replacements, `inherited_by` those of
    them that its objects pass to, and with `handing_over` it was decided that it goes once they are ready. `moving_to` is the data plane that it
    moves to, and `row` what was recorded of its row since then.
    """

    name: str
    uid: str
    template: str
    version: str
    variables: Mapping[str, str]
    object_uid: str = ""
    """The UID of the Tenant; `uid` is that of its row."""
    sensitive: Mapping[str, str] | None = field(default=None, repr=False)
    intact: bool = True
    deleting: bool = False
    created: str = ""
    state: TenantState = TenantState.PENDING
    replaced_by: frozenset[str] = frozenset()
    inherited_by: frozenset[str] = frozenset()
    handing_over: bool = False
    moving_to: str = ""
    row: str = ""
    paused: bool = False
    protected: bool = True
    """Whether it stays when its template is deleted, until an approval."""
    labels: Mapping[str, str] = field(default_factory=dict)
    change: Change | None = None
    """The last change by a rollout of its template."""
    previous_row: RecordedRow | None = None
    """What the row was before that change, if rows take part in rollouts."""
    admitted: AdmittedRow | None = None
    """What it was last written with, if rows take part in rollouts: `version` and `variables` are those."""
    health_since: datetime | None = None
    """When it last became ready or lost readiness; not read for a ready tenant without a `change`."""
    judgement: Judgement = field(default_factory=Judgement)
    """Whether one that is not ready is so for its last change."""


@dataclass(frozen=True, slots=True)
class DesiredTenant:
    """A tenant that should exist, with its row's variables.

    `version` is that of the template's content that it keeps or gets; empty: the present one. `change` is
    recorded on it when a rollout changes it.
    """

    name: str
    template: Template
    row: ActiveRow
    version: str = ""
    change: Change | None = None
    previous_row: RecordedRow | None = None
    """Recorded with the change: what the row was before."""

"""Approvals by a second person, as the kinds of all groups have them in their spec and status."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from ctrlruntime.api import CEL, ApiModel, Time

__all__ = ["ApprovalGiven", "ApprovalsStatus", "RequireApprovalBy"]

GroupName = Annotated[
    str,
    Field(min_length=1, max_length=253),
    CEL(
        "!self.startsWith('system:')",
        message="groups of Kubernetes itself, such as system:authenticated, are no group of approvers",
    ),
]


class RequireApprovalBy(ApiModel):
    """Whose approvals count. Admission records who gave one: without the manager's webhooks none counts."""

    group: GroupName
    """The group of users, as the API server names it, of which one has to approve."""
    further_groups: Annotated[list[GroupName], Field(max_length=16)] = Field(default_factory=list)
    """Groups whose members may approve as well."""
    other_than_author: bool = False
    """Whether the approval has to be by another person than who last changed the spec, or requested the deletion."""


class ApprovalGiven(ApiModel):
    """An approval that counts."""

    annotation: str
    """The annotation that gives it."""
    value: str
    """What is approved: a digest, a wave, a version."""
    by: str
    """The user who gave it, as admission recorded it."""
    at: Time
    """When."""


class ApprovalsStatus(ApiModel):
    """Whose approvals the object needs, and who gave those that count."""

    protection: str = ""
    """What is in force, as JSON: ``requireApprovalBy`` and the fields that decide what needs an approval. Another spec
    takes effect once a member of the group has changed it through admission."""
    generation: int = 0
    """Since which generation of the spec."""
    given: Annotated[list[ApprovalGiven], Field(max_length=64)] = Field(default_factory=list)
    """The approvals that counted last, the newest 64."""

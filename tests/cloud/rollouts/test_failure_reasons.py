"""Why members failed stays in the status of the rollout that returned them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

import pytest

from apis.cloud import FleetRolloutSpec, FleetRolloutStatus
from ctrlruntime.rollout import Decision, Health, Member, Strategy
from internal.cloud.rollouts.members import Fleet
from internal.cloud.rollouts.status import summarize

NOW: Final = datetime(2026, 3, 2, tzinfo=UTC)


def after(before: FleetRolloutStatus, decision: Decision, *causes: str) -> FleetRolloutStatus:
    canary = Member(name="canary", version="2", health=Health.FAILED, causes=frozenset(causes))
    spec, fleet = FleetRolloutSpec(target_version="2"), Fleet([canary], {})
    return summarize(before, spec, decision, fleet, Strategy(), 1, NOW, place="web -n shops")


@pytest.mark.criterion("C-13")
def test_c_13_a_rollout_that_was_rolled_back_has_why_its_members_failed() -> None:
    cause = "InstanceKubernetes: Deployment web: image not found"
    failing = Decision(
        target="2", total=1, failed=("canary",), halted="1 member failed: canary", returned=0
    )
    halted = after(FleetRolloutStatus(), failing, cause)
    assert halted.failed_message == f"canary: {cause}"
    back = Decision(target="2", total=1, returned=1, halted="1 member rolled back: canary")
    returned = after(halted, back)
    assert returned.phase == "RolledBack"
    assert returned.message.endswith(f"canary: {cause}")
    assert after(returned, Decision(target="2", total=1)).failed_message == ""

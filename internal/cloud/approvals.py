"""What a person approves on an Instance, its subresources and a FleetRollout, and which fields decide what needs that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from apis.cloud import GROUP, WaveApproval
from ctrlruntime.json import Json
from internal.approvals.rules import ApprovalRules, Paths, Protection
from internal.cloud.labels import (
    ALLOW_VERSION,
    APPROVED_PLAN,
    APPROVED_WAVES,
    DATABASE_RESTORED,
    FORMER_CLUSTER,
    MISSING_STATE,
    RESUMED_AT,
    TEARDOWN_APPROVED,
)
from internal.removal_holds import allow_delete

AUTOMATIC: Final = "automaticWaves"
"""Names of the waves of a rollout that begin without an approval."""


@dataclass(frozen=True, slots=True)
class Waves:
    """Which waves of a FleetRollout begin without an approval."""

    def read(self, spec: Mapping[str, Json]) -> Protection:
        """Return their names."""
        return {AUTOMATIC: sorted(str(each.get("name")) for each in _waves(spec) if _begins(each))}

    def restore(self, spec: dict[str, Json], protection: Mapping[str, Json]) -> None:
        """Have every other wave wait for an approval."""
        automatic = protection.get(AUTOMATIC) or ()
        for wave in _waves(spec):
            begins = wave.get("name") in automatic
            wave["approval"] = (WaveApproval.AUTOMATIC if begins else WaveApproval.MANUAL).value


def _waves(spec: Mapping[str, Json]) -> list[dict[str, Json]]:
    waves = spec.get("waves")
    return [each for each in waves if isinstance(each, dict)] if isinstance(waves, list) else []


def _begins(wave: Mapping[str, Json]) -> bool:
    return bool(wave.get("approval", WaveApproval.AUTOMATIC.value) == WaveApproval.AUTOMATIC.value)


INSTANCE: Final = ApprovalRules(
    annotations=frozenset(
        {
            allow_delete(GROUP),
            ALLOW_VERSION,
            DATABASE_RESTORED,
            FORMER_CLUSTER,
            MISSING_STATE,
        }
    ),
    fields=Paths(
        {
            "deletionProtection": None,
            "debug.enableDeletionProtection": True,
            "deletionPolicy": "Delete",
            "terraformRuns.approval": "Automatic",
            "upgradePolicy.allowDowngrade": False,
            "upgradePolicy.maxMinorStep": None,
        }
    ),
)
SUBRESOURCE: Final = ApprovalRules(
    annotations=frozenset({APPROVED_PLAN, TEARDOWN_APPROVED}),
    of_manager=frozenset({TEARDOWN_APPROVED}),
)
ROLLOUT: Final = ApprovalRules(
    annotations=frozenset({APPROVED_WAVES, RESUMED_AT}),
    fields=Waves(),
    listed=frozenset({APPROVED_WAVES}),
)

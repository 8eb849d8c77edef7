"""Managers that share tenants, on the command line: what their flags need, and what `manager top` shows of them."""

from __future__ import annotations

from datetime import datetime

import pytest
from click.testing import CliRunner

from apis.health import Health
from ctrlruntime.clock import utc_now
from ctrlruntime.envtest import Environment
from ctrlruntime.manager.lease import LEASE
from ctrlruntime.sharding import parse_slots, slot_of
from ctrlruntime.sharding.assignment import Announced
from ctrlruntime.sharding.leases import ANNOUNCED, MEMBER
from ctrlruntime.sharding.members import announcement
from ctrlruntime.sharding.options import GROUP_LABEL
from manager.cli import main
from manager.commands.summaries import Summary
from manager.commands.top import NO_OWNER, read_members
from manager.options import RunOptions

STACK = ["--data-plane-kubeconfig", "plane", "--target-namespace", "east"]
ELECT = ["--leader-elect", "--leader-election-namespace", "system"]


@pytest.mark.criterion("SH-21")
@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--slots", "0-64", *ELECT], "goes past the last slot"),
        (["--slots", "", *ELECT], "neither a slot nor a range"),
        (["--slots", "0-31"], "--slots needs --leader-elect"),
        (["--shards"], "--shards needs --leader-elect"),
        (["--shards", "--slots", "1", *ELECT], "give --slots or --shards"),
        (["--shards", "--role", "admission", *ELECT], "leave --role admission out"),
        (["--slots", "1", *STACK, *ELECT], "--slots is not there for stacks"),
        (["--shards", "--shard-name", "A_1", *ELECT], "DNS label"),
    ],
)
def test_flags_that_do_not_go_together_are_refused(flags: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["run", *flags])
    assert result.exit_code == 2, result.output
    assert said in " ".join(result.output.split())


@pytest.mark.criterion("SH-27")
@pytest.mark.parametrize(
    ("systems", "group", "rule"),
    [
        (("tenancy",), "manager", 1),
        (("tenancy", "cloud"), "manager", 3),
        (("cosmos",), "cosmos", 2),
        (("cloud",), "cloud", 3),
        (("cloud", "cosmos"), "cosmos", 4),
        (("tenancy", "cloud", "cosmos"), "manager", 4),
    ],
)
def test_managers_that_divide_different_things_share_nothing(
    systems: tuple[str, ...], group: str, rule: int
) -> None:
    found = RunOptions(systems=systems, shards=True).sharding()
    assert found is not None
    assert (found.group, found.rule) == (group, rule)


@pytest.mark.criterion("SH-24")
async def test_top_shows_members_their_slots_and_tenants_and_what_none_has() -> None:
    def lease(
        name: str, slots: str, renewed: datetime, group: str = "manager", rule: int = 1
    ) -> dict[str, object]:
        announced = announcement(Announced(3, parse_slots(slots)), rule=rule)
        annotations = {MEMBER: name, ANNOUNCED: announced}
        labels = {GROUP_LABEL: group}
        place = {"name": f"{group}-shard-{name}", "namespace": "default"}
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": LEASE.kind,
            "metadata": {**place, "labels": labels, "annotations": annotations},
            "spec": {
                "holderIdentity": "pod_1",
                "leaseDurationSeconds": 15,
                "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            },
        }

    now = utc_now()
    async with Environment() as environment:
        client = environment.client()
        await client.create(lease("a", "0-31", now))
        await client.create(lease("b", "32-40", now.replace(year=now.year - 1)))
        await client.create(lease("c", "0-63", now, "cosmos", 2))
        names = [f"t{number}" for number in range(20)]
        found = [_of(kind, name) for name in names for kind in ("Tenant", "CosmosFullNode")]
        rows = await read_members(client, found, now)
    first = sum(slot_of(name, namespace="default") < 32 for name in names)
    assert [(e["member"], e["slots"], e["tenants"], e["sets"]) for e in rows] == [
        ("c", "0-63", 0, 20),
        ("a", "0-31", first, 0),
        (NO_OWNER, "32-63", 20 - first, 0),
    ]


def _of(kind: str, name: str) -> Summary:
    return Summary(kind=kind, namespace="default", name=name, state="Ready", health=Health.GOOD)

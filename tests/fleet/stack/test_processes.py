"""`manager run --data-plane-kubeconfig` as processes: its options, and two hubs with one data plane."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from apis.fleet.labels import LEASE, PLANE_NAMESPACE
from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupVersionKind
from manager.options import SYSTEMS
from tests.fleet.stack.harness import (
    CONFIG_MAP,
    DEPLOYMENT,
    Server,
    config_map,
    deployment,
    ready,
    server,
    tenant,
)
from tests.manager_cli.program import Program

LEASES = BUILTIN[GroupVersionKind("coordination.k8s.io", "v1", "Lease")]
QUIET = ("--metrics-bind-address=0", "--health-probe-bind-address=0", "--log-format=console")


async def stack(hub: Server, plane: Server, user: str, *more: str) -> Program:
    """Run the controllers of a data plane as a process; it reaches the plane as a user."""
    return await Program.start(
        "run",
        *("--kubeconfig", hub.environment.kubeconfig("manager")),
        *("--data-plane-kubeconfig", plane.environment.kubeconfig(user)),
        "--target-namespace=planes",
        *QUIET,
        *more,
    )


@pytest.mark.criterion("FLEET-R24")
async def test_of_two_hubs_with_one_data_plane_the_lease_decides(tmp_path: Path) -> None:
    async with contextlib.AsyncExitStack() as opened:
        made = []
        for name, options in (
            ("one", {"plane": False}),
            ("two", {"plane": False}),
            ("plane", {"plane": True, "users": ("admin", "manager", "rival")}),
        ):
            (tmp_path / name).mkdir()
            made.append(await opened.enter_async_context(server(tmp_path / name, **options)))
        first, second, plane = made
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": PLANE_NAMESPACE}}
        await plane.client.create(namespace)
        winner = await stack(first, plane, "manager", "--role=controllers")
        async with winner:
            await winner.prints("Starting workers")
            loser = await stack(second, plane, "rival", "--role=controllers")
            async with loser:
                await loser.prints("DataPlaneNotUnique")
                await plane.client.create(tenant(deployment(), config_map("notes")))
                await ready(plane)
                assert await first.names(DEPLOYMENT) == {"web"}
                assert await plane.names(CONFIG_MAP) == {"notes"}
                lease = await plane.get(LEASES, LEASE, PLANE_NAMESPACE)
                assert lease is not None
                assert "/planes/" in lease["spec"]["holderIdentity"]
                log = plane.environment.proxy.log.counts().select(user="rival")
                assert log.total, "it watches"
                assert not log.writes, log
                assert not second.environment.proxy.log.counts().select(user="manager").writes


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--target-namespace=a",), "--target-namespace needs --data-plane-kubeconfig"),
        (("--data-plane-kubeconfig=f",), "needs --target-namespace"),
        (
            ("--data-plane-kubeconfig=f", "--target-namespace=a", "--system=cloud"),
            "--run-provider local keeps runs in a Pod of the stack",
        ),
        (  # Members are controllers too.
            (
                *("--data-plane-kubeconfig=f", "--target-namespace=a", "--system=cloud"),
                *("--role=workers", "--shards", "--leader-elect"),
            ),
            "--run-provider local keeps runs in a Pod of the stack",
        ),
        (  # All that are named, also in the order of the default of a manager without data planes.
            (
                "--data-plane-kubeconfig=f",
                "--target-namespace=a",
                *(f"--system={name}" for name in SYSTEMS),
            ),
            "--run-provider local keeps runs in a Pod of the stack",
        ),
        (
            ("--data-plane-kubeconfig=f", "--target-namespace=a", "--embedded"),
            "exclude each other",
        ),
    ],
)
async def test_options_that_do_not_go_together_are_refused(
    arguments: tuple[str, ...], message: str
) -> None:
    async with await Program.start("run", *QUIET, *arguments) as program:
        assert await program.wait() == 2
        assert message in program.output

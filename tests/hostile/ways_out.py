"""Every way out: what connects to a server, what is kept of its answer at most, and what tries it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tests.hostile.documents import KUBECONFIG
from tests.hostile.health_answers import HEALTH
from tests.hostile.measure import Door
from tests.hostile.peers import DATABASES, NODES
from tests.hostile.plane_answers import LIST, PLANE, WATCH


@dataclass(frozen=True, slots=True, kw_only=True)
class WayOut:
    """Servers of one sort."""

    name: str
    modules: tuple[str, ...]
    """What opens the connections."""
    outbound: tuple[str, ...] = ()
    """Names in `DOORS` of tests/hostile/outbound_doors.py: tried for refused addresses and for texts that quote an answer."""
    limits: str
    doors: tuple[Door, ...] = ()
    tests: tuple[str, ...] = ()


WAYS: Final = (
    WayOut(
        name="API servers: data planes, clusters of instances",
        modules=("ctrlruntime/client/dial.py",),
        outbound=("a cluster", "a cluster by a proxy"),
        limits=f"{PLANE.limits}; 30 s from when a request is sent",
        doors=(PLANE, WATCH, LIST, KUBECONFIG),
    ),
    WayOut(
        name="databases of registries",
        modules=(
            "internal/tenancy/sources/mysql_packets.py",
            "internal/tenancy/sources/postgresql/auth.py",
        ),
        outbound=("MySQL", "PostgreSQL", "PostgreSQL by TLS"),
        limits=f"{DATABASES.limits}; `connectTimeoutSeconds` and `readTimeoutSeconds` as a whole",
        doors=(DATABASES,),
    ),
    WayOut(
        name="nodes of chains",
        modules=("internal/cosmos/comet/client.py",),
        outbound=("the status of a node", "the disk of a node"),
        limits=NODES.limits,
        doors=(NODES,),
    ),
    WayOut(
        name="health checks of rollouts",
        modules=("ctrlruntime/rollout/health_checker.py",),
        outbound=("a query of Prometheus", "a hook"),
        limits=HEALTH.limits,
        doors=(HEALTH,),
    ),
    WayOut(
        name="requests of instances: invariants, upgrades, disks",
        modules=("internal/cloud/tasks/requests.py",),
        outbound=("an invariant",),
        limits="the first 1 MiB of an answer, also inflated; `timeoutSeconds` with 10 redirects; in the process of the run",
        tests=(
            "tests/cloud/tasks/requests/test_requests.py",
            "tests/hostile/test_ways_out.py",
        ),
    ),
    WayOut(
        name="HCP Terraform",
        modules=("internal/cloud/tasks/terraform/hcp/engine.py",),
        outbound=("HCP Terraform",),
        limits="32 MiB an answer, also inflated; 30 s; in the process of the run",
        tests=("tests/hostile/test_ways_out.py",),
    ),
    WayOut(
        name="genesis files, archives of nodes",
        modules=("internal/cosmos/sidecar/download.py",),
        outbound=("a genesis file", "an archive"),
        limits="a size of the whole, packed and unpacked; of an archive regular files and folders only, within the node's folder; in a container of the node",
        tests=("tests/cosmos/sidecar/test_fetch.py",),
    ),
    WayOut(
        name="Cloud Run, of the manager's own project",
        modules=("internal/cloud/runs/cloudrun/api.py",),
        limits="64 MiB an answer; 256 KiB of a report, 16 MiB of a log at a look; 60 s",
        tests=(
            "tests/cloud/runs/test_cloudrun.py",
            "tests/cloud/runs/test_cloudrun_logs.py",
        ),
    ),
    WayOut(
        name="charts and kustomizations, by `helm` and `kubectl`",
        modules=("internal/cloud/tasks/kubernetes/rendering.py",),
        limits="16 MiB and 200,000 values of what is printed; 300 s; in the process of the run",
        tests=("tests/cloud/tasks/kubernetes/test_rendering.py",),
    ),
    WayOut(
        name="Terraform, by its program",
        modules=("internal/cloud/tasks/terraform/local/binary.py",),
        limits="64 MiB a line, 16 KiB of each of the last 20; outputs of 4 KiB; in the process of the run",
        tests=("tests/cloud/tasks/terraform/test_local.py", "tests/cloud/runs/test_report.py"),
    ),
    WayOut(
        name="credential plugins of the manager's own kubeconfig",
        modules=("ctrlruntime/client/auth.py",),
        limits="60 s; refused in a kubeconfig of a Secret",
        tests=("tests/client/test_config.py",),
    ),
)
NO_WAY_OUT: Final = frozenset(
    {
        "ctrlruntime/outbound_http.py",
        "ctrlruntime/outbound_addresses.py",
        "ctrlruntime/manager/http.py",
        "ctrlruntime/manager/webhooks.py",
        "internal/tenancy/rendering/worker.py",
    }
)
"""What makes the sessions and sockets of the others, serves, or connects to the manager's own port or process."""


def table() -> list[tuple[str, ...]]:
    """Return the rows of the table of ways out, its head first."""
    rows = [
        (
            way.name,
            way.limits,
            ", ".join(
                [f"`make hostile DOOR='{each.name}'`" for each in way.doors]
                + [f"`{each}`" for each in way.tests]
            ),
        )
        for way in WAYS
    ]
    return [("way out", "limits", "tried by"), *rows]

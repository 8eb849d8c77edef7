"""The stack of a data plane: a manager whose own cluster that is, with the hub as a second one."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from structlog.typing import FilteringBoundLogger

from apis.fleet.labels import ADMISSION_SECRET, LEASE, PLANE_NAMESPACE, WORKERS_LEASE
from ctrlruntime.api import BUILTIN, GroupVersionKind
from ctrlruntime.client import Client, Config
from ctrlruntime.manager import Manager, ManagerOptions
from ctrlruntime.manager.election import default_identity
from ctrlruntime.manager.lease import ServerRestored
from internal.fleet.admission_url import host_of
from internal.fleet.labels import ADMISSION
from internal.fleet.plane_check import FAILURES, identify
from internal.fleet.plane_holder import PlaneHolder, StackName
from manager.controllers.hub import Hub, StackOptions, add_hub
from manager.controllers.orphan_sweep import LeaderSweep, add_orphan_sweep
from manager.controllers.plane_guard import PlaneGuard, prove, read_access
from manager.controllers.plane_webhooks import add_plane_webhooks
from manager.controllers.tenancy import webhooks as tenancy_webhooks
from manager.controllers.tenancy_admission import add_tenancy_admission
from manager.options import LEADER_ELECTION_ID, Role, RunOptions
from manager.serving.shards import with_slots

if TYPE_CHECKING:
    from ctrlruntime.generate.webhook import Webhook

FOLLOWING: Final = frozenset({Role.ADMISSION, Role.WORKERS})
"""Roles that work only while the controllers of the stack hold the Lease of the data plane; members are controllers."""
MEMBERS: Final = "fleet"
"""Group of the members of a stack: their Leases on the data plane begin with it."""
TIMEOUT: Final = 10.0
"""Seconds that the hub has to be identified at the start, and the data plane at the end."""
LEASES: Final = BUILTIN[GroupVersionKind("coordination.k8s.io", "v1", "Lease")]


async def run_stack(
    options: RunOptions, hub: Config, runtime: ManagerOptions, logger: FilteringBoundLogger
) -> None:
    """Run until SIGTERM or SIGINT. Raises ConfigError, and what made the manager stop."""
    assert options.data_plane_kubeconfig is not None  # noqa: S101 - the caller's condition
    # What was proved is what is used: parsed by the operator's rules, and of the same data plane.
    access = read_access(options.data_plane_kubeconfig)
    data_plane = access.config
    target = options.target_namespace or options.own_namespace
    stack = StackOptions(
        data_plane=await prove(data_plane, options.data_plane_id, logger),
        target_namespace=target,
        restrict_secrets=not options.unrestricted_hub_secrets,
    )
    # Who reads metrics is an account of the hub, as the Pods are.
    runtime = replace(runtime, metrics=replace(runtime.metrics, reviewer=hub))
    name = await stack_name(hub, target, logger)
    guard = PlaneGuard(stack.data_plane, access, options.data_plane_kubeconfig, logger)
    lease = lease_of(runtime)
    follows = options.role in FOLLOWING and not options.shards
    if follows and not await is_held(data_plane, runtime, name, guard):
        return
    if options.role is Role.ADMISSION:
        url = options.admission_url
        manager = Manager(data_plane, serving(runtime, target, url), logger=logger)
        holder = follow_lease(manager, name, lease)
        add_plane_webhooks(manager, url, add_admission(manager, options), holder)
        manager.add(Following(holder))
    elif options.role is Role.WORKERS and follows:
        manager = Manager(data_plane, elected(runtime, name, WORKERS_LEASE), logger=logger)
        follow_lease(manager, name, manager.options.leader_election_id, check="workers")
        manager.add(Following(follow_lease(manager, name, lease)))
        add_orphan_sweep(manager, await add_hub(manager, hub, stack))
    else:
        manager = Manager(data_plane, elected(runtime, name, LEASE), logger=logger)
        follow_lease(manager, name, lease)
        if manager.shards is not None:  # the operator takes what works away once members are ready
            manager.add_readyz_check("members", manager.shards.check_listed)
        engaged = await add_hub(manager, hub, stack)
        await add_systems(manager, with_slots(options, manager), hub, engaged)
        if options.role is Role.WORKERS:
            manager.add(LeaderSweep(manager, engaged))
    manager.add(guard)
    try:
        await manager.start()
    except ServerRestored:
        # Another server at the same address lacks the Lease too, and is often noticed by that: say so if it answers.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TIMEOUT):
                await prove(data_plane, stack.data_plane, logger)
        raise


async def is_held(
    data_plane: Config, runtime: ManagerOptions, name: StackName, guard: PlaneGuard
) -> bool:
    """Wait until the controllers of the stack hold the data plane. Return False at SIGTERM or SIGINT before.

    Two hubs with one data plane have two stacks there: what follows the controllers writes nothing, as they do.
    """
    manager = Manager(data_plane, replace(runtime, leader_election=False), logger=guard.logger)
    holder = follow_lease(manager, name, lease_of(runtime))
    manager.add_readyz_check("held", holder.check_own)
    manager.add(guard)
    manager.add(_UntilHeld(holder, manager))
    guard.logger.info(
        "Waiting for the controllers of this stack to hold the Lease of the data plane"
    )
    await manager.start()
    return holder.is_own


@dataclass(slots=True)
class _UntilHeld:
    """Stops a manager once its stack holds the Lease."""

    holder: PlaneHolder
    manager: Manager
    needs_leader_election = False

    async def start(self) -> None:
        await self.holder.wait_own()
        self.manager.stop()


@dataclass(slots=True)
class Following:
    """Ends the process when another stack has the data plane; it waits from its next start on."""

    holder: PlaneHolder
    needs_leader_election = False

    async def start(self) -> None:
        """Raise DataPlaneNotUnique once that is so."""
        await self.holder.wait_lost()


def add_admission(manager: Manager, options: RunOptions) -> list[Webhook]:
    """Serve the webhooks of the systems that were asked for. Return what has to be configured for them."""
    add_tenancy_admission(manager, options.tenancy)
    if "cloud" not in options.systems:
        return tenancy_webhooks()
    from manager.controllers.cloud_admission import add_cloud_admission
    from manager.controllers.cloud_admission import webhooks as cloud_webhooks

    add_cloud_admission(manager, options.cloud)
    return [*tenancy_webhooks(), *cloud_webhooks()]


async def add_systems(manager: Manager, options: RunOptions, config: Config, hub: Hub) -> None:
    """Add the controllers of the systems that were asked for. `config`: of the hub, where the stack's Pods are."""
    chosen = options.systems
    if "tenancy" in chosen:
        from manager.controllers.tenancy import add_tenancy

        add_tenancy(manager, replace(options.tenancy, webhooks=False), hub)
    if "cosmos" in chosen:
        from manager.controllers.cosmos import add_cosmos
        from manager.controllers.cosmos_image import with_sidecar_image

        cosmos = await with_sidecar_image(options.cosmos, config, options.own_namespace)
        add_cosmos(manager, cosmos, hub)
    if "cloud" in chosen:
        from manager.controllers.cloud import add_cloud
        from manager.controllers.runs import with_own_image

        runs = await with_own_image(options.cloud.runs, config, options.own_namespace)
        add_cloud(manager, replace(options.cloud, runs=runs), hub=hub)


def serving(runtime: ManagerOptions, target_namespace: str, url: str = "") -> ManagerOptions:
    """Return the options of the role `admission`: its certificates are kept on the data plane, for its Service on the hub.

    `url`: where the data plane reaches it; its host is in the certificate, whose authority goes into the configuration there.
    """
    own = (host_of(url),) if url else ()
    webhook = runtime.webhook
    webhook = replace(
        webhook,
        secret_namespace=webhook.secret_namespace or PLANE_NAMESPACE,
        secret_name=ADMISSION_SECRET,
        service_name=ADMISSION,
        hosts=(*webhook.hosts, *service_hosts(ADMISSION, target_namespace), *own),
        mutating_configurations=(),
        validating_configurations=(ADMISSION,) if url else (),
    )
    return replace(runtime, leader_election=False, webhook=webhook)


def service_hosts(name: str, namespace: str) -> tuple[str, ...]:
    """Return the names of a Service within its cluster."""
    host = f"{name}.{namespace}.svc"
    return (host, f"{host}.cluster.local", f"{name}.{namespace}")


def lease_of(runtime: ManagerOptions) -> str:
    """Return the name of the Lease that the controllers of a stack are elected by."""
    own = runtime.leader_election_id not in {"", LEADER_ELECTION_ID}
    return runtime.leader_election_id if own else LEASE


def elected(runtime: ManagerOptions, name: StackName, lease: str) -> ManagerOptions:
    """Return the options with an election by a Lease on the data plane, which keeps stacks of other hubs out.

    Members hold that Lease together, under the name of their stack: two stacks never share one group.
    """
    own_lease = runtime.leader_election_id not in {"", LEADER_ELECTION_ID}
    sharding = runtime.sharding
    return replace(
        runtime,
        sharding=None if sharding is None else replace(sharding, group=MEMBERS),
        leader_election=True,
        leader_election_id=runtime.leader_election_id if own_lease else lease,
        leader_election_namespace=runtime.leader_election_namespace or PLANE_NAMESPACE,
        leader_election_identity=f"{name.prefix}{default_identity()}",
        leader_election_shared_identity=f"{name.prefix}members",
    )


def follow_lease(
    manager: Manager, name: StackName, lease: str, *, check: str = "data-plane"
) -> PlaneHolder:
    """Have the manager not ready while a stack of another hub, or namespace, holds a Lease of the data plane."""
    holder = PlaneHolder(name, manager.logger)
    informer = manager.cache.declare(
        LEASES,
        namespaces=[manager.options.leader_election_namespace or PLANE_NAMESPACE],
        fields=f"metadata.name={lease}",
    ).informer
    informer.add_handler(holder)
    manager.add_readyz_check(check, holder.check)
    return holder


async def stack_name(hub: Config, target_namespace: str, logger: FilteringBoundLogger) -> StackName:
    """Return how the Leases name candidates of one stack: by the hub's id, whatever its address and authority are."""
    authority = bytes(hub.ca_data or b"")
    digest = hashlib.sha256(hub.host.encode() + b"\0" + authority).hexdigest()[:12]
    former = f"{digest}/{target_namespace}/"
    try:
        async with asyncio.timeout(TIMEOUT), Client.connect(hub, logger=logger) as client:
            found = await identify(client)
    except FAILURES as error:
        logger.warning(
            "The hub cannot be identified; until the next start its address names the stack",
            error=str(error),
        )
        return StackName(former, former)
    return StackName(f"{found}/{target_namespace}/", former)

"""The simulated nodes put together."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from pathlib import Path
from typing import Self

from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.backoff import BackoffOptions
from ctrlruntime.cache.entry import Entry
from ctrlruntime.cache.events import GenericEvent
from ctrlruntime.cache.informer import InformerOptions
from ctrlruntime.cache.options import CacheOptions
from ctrlruntime.cache.reflector import ReflectorOptions
from ctrlruntime.client.client import Client
from ctrlruntime.client.config import Config
from ctrlruntime.client.errors import AlreadyExists
from ctrlruntime.controller.builder import Builder
from ctrlruntime.controller.handlers import enqueue_map_func, enqueue_object
from ctrlruntime.controller.options import ControllerOptions
from ctrlruntime.controller.reconcile import Reconciler
from ctrlruntime.controller.sources import Channel, ChannelSource
from ctrlruntime.envtest.nodes import auxiliary_controllers, quick
from ctrlruntime.envtest.nodes.cluster import Cluster, NodeOptions
from ctrlruntime.envtest.nodes.daemonsets import DaemonSetReconciler
from ctrlruntime.envtest.nodes.deployments import DeploymentReconciler
from ctrlruntime.envtest.nodes.jobs import JobReconciler
from ctrlruntime.envtest.nodes.kinds import (
    AUTOSCALER,
    BUDGET,
    CLAIM,
    DAEMON_SET,
    DEPLOYMENT,
    INGRESS,
    JOB,
    NODE,
    NODE_NAME,
    POD,
    REPLICA_SET,
    SERVICE,
    STATEFUL_SET,
    Manifest,
)
from ctrlruntime.envtest.nodes.local import LocalRunner
from ctrlruntime.envtest.nodes.pods import PodReconciler
from ctrlruntime.envtest.nodes.podstatus import HOST_IP
from ctrlruntime.envtest.nodes.replicasets import ReplicaSetReconciler
from ctrlruntime.envtest.nodes.statefulsets import StatefulSetReconciler
from ctrlruntime.envtest.nodes.status import timestamp
from ctrlruntime.manager.manager import Manager
from ctrlruntime.manager.options import ManagerOptions
from ctrlruntime.manager.runnables import FuncRunnable
from ctrlruntime.queue import Request

EAGER = InformerOptions(reflector=ReflectorOptions(backoff=BackoffOptions(cap=2.0)))
"""Servers of tests are restarted, and a node's grace period of half a minute is not needed."""


class SimulatedNodes:
    """All controllers on one manager.

    `kubeconfig` is given to local processes and needed only with `run_local`.
    """

    def __init__(
        self, config: Config, options: NodeOptions | None = None, *, kubeconfig: Path | None = None
    ) -> None:
        self.options = options or NodeOptions()
        self.manager = Manager(
            config,
            ManagerOptions(
                name="nodes",
                namespaces=self.options.namespaces,
                metrics_bind_address="0",
                health_bind_address="0",
                controller=ControllerOptions(
                    max_concurrent_reconciles=self.options.workers, needs_leader_election=False
                ),
            ),
            cache_options=CacheOptions(namespaces=self.options.namespaces, informers=EAGER),
        )
        self.cluster = Cluster(self.manager.cache, self.manager.client, self.options)
        self._changes = Channel()
        self._runner = self._make_runner(kubeconfig)
        if self.options.pods:
            self._add_workloads()
        else:
            self._add_quick_workloads()
        self._add_pods()
        self._add_surroundings()

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Self]:
        """Register the node and run for the length of the block, as :meth:`Manager.running` does."""
        async with Client.connect(self.manager.config) as client:
            await register_node(client, timestamp(self.cluster.now()))
        async with self.manager.running():
            yield self

    def _make_runner(self, kubeconfig: Path | None) -> LocalRunner | None:
        if not self.options.run_local:
            return None
        if kubeconfig is None:
            raise ValueError("run_local needs the kubeconfig that processes are to use")

        async def changed(key: tuple[str, str]) -> None:
            await self._changes.send(GenericEvent(None, key))

        runner = LocalRunner(kubeconfig, changed, self.cluster.now)
        self.manager.add(FuncRunnable(runner.start_and_stop, needs_leader_election=False))
        return runner

    def _add(
        self, kind: GroupVersionKind, reconciler: Reconciler, *owned: GroupVersionKind
    ) -> None:
        builder = Builder(self.manager).for_(kind)
        for owned_kind in owned:
            builder = builder.owns(owned_kind)
        builder.build(reconciler)

    def _add_workloads(self) -> None:
        cluster = self.cluster
        self._add(DEPLOYMENT, DeploymentReconciler(cluster), REPLICA_SET)
        self._add(REPLICA_SET, ReplicaSetReconciler(cluster), POD)
        self._add(STATEFUL_SET, StatefulSetReconciler(cluster), POD)
        self._add(DAEMON_SET, DaemonSetReconciler(cluster), POD)
        self._add(JOB, JobReconciler(cluster), POD)

    def _add_quick_workloads(self) -> None:
        cluster = self.cluster
        self._add(DEPLOYMENT, quick.QuickDeployment(cluster))
        self._add(STATEFUL_SET, quick.QuickStatefulSet(cluster))
        self._add(DAEMON_SET, quick.QuickDaemonSet(cluster))
        self._add(JOB, quick.QuickJob(cluster))

    def _add_pods(self) -> None:
        source = ChannelSource(self._changes, enqueue_object, name="local processes")
        builder = Builder(self.manager).for_(POD).watches_raw(source)
        builder.build(PodReconciler(self.cluster, self._runner))

    def _add_surroundings(self) -> None:
        cluster = self.cluster
        self._add(CLAIM, auxiliary_controllers.ClaimReconciler(cluster))
        self._add(SERVICE, auxiliary_controllers.ServiceReconciler(cluster))
        self._add(INGRESS, auxiliary_controllers.IngressReconciler(cluster))
        (
            Builder(self.manager)
            .for_(AUTOSCALER, optional=True)
            .watches(DEPLOYMENT, enqueue_map_func(self._in_namespace(AUTOSCALER)))
            .watches(STATEFUL_SET, enqueue_map_func(self._in_namespace(AUTOSCALER)))
            .build(auxiliary_controllers.AutoscalerReconciler(cluster))
        )
        (
            Builder(self.manager)
            .for_(BUDGET, optional=True)
            .watches(POD, enqueue_map_func(self._in_namespace(BUDGET)))
            .build(auxiliary_controllers.BudgetReconciler(cluster))
        )

    def _in_namespace(self, kind: GroupVersionKind) -> Callable[[Entry], Iterable[Request]]:
        """Map an object to all objects of `kind` beside it: there are few of them."""

        def requests(entry: Entry) -> list[Request]:
            store = self.manager.cache.informer(kind).store
            found = store.by_index("namespace", entry.namespace)
            return [Request(item.name, namespace=item.namespace) for item in found]

        return requests


async def register_node(client: Client, now: str) -> None:
    """Make the one Node, Ready; a Node that is there already is left alone."""
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "simulated",
        "lastHeartbeatTime": now,
        "lastTransitionTime": now,
    }
    room = {"cpu": "1000", "memory": "1Ti", "pods": "100000"}
    node: Manifest = {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": NODE_NAME,
            "labels": {"kubernetes.io/hostname": NODE_NAME, "kubernetes.io/os": "linux"},
        },
    }
    try:
        await client.create(node)
    except AlreadyExists:
        return
    status = {
        "conditions": [ready],
        "capacity": room,
        "allocatable": room,
        "addresses": [
            {"type": "InternalIP", "address": HOST_IP},
            {"type": "Hostname", "address": NODE_NAME},
        ],
    }
    await client.patch_status(NODE, NODE_NAME, {"status": status})

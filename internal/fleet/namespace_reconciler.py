"""Reconciles one namespace of the hub: deploys its stack, removes it, or leaves it alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from apis.fleet import FleetConfig, Reason
from apis.fleet.fleetconfig import NAME
from apis.fleet.labels import DATA_PLANE, DATA_PLANE_ID
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.errors import APIError, NotFound, TransportError
from ctrlruntime.controller import Request, Result
from ctrlruntime.controller.annotations import is_paused
from ctrlruntime.resources import Owner
from internal.fleet.stack_deployer import StackDeployer
from internal.fleet.stack_removals import WAITS, goes_by_config, is_permitted
from internal.fleet.stack_teardown import AGAIN, StackTeardown
from internal.fleet.targets import KnownTargets, Mode, Outcome, is_former, is_mistyped, mode_of
from internal.removal_holds import LostRecords

MISTYPED: Final = f'stays, as its label {DATA_PLANE} cannot be read; write "true", or remove it'


class Entries(Protocol):
    """Where objects are looked up; a store of an informer."""

    def get(self, name: str, *, namespace: str) -> Entry | None: ...


@dataclass(slots=True)
class NamespaceReconciler:
    """One request is one namespace; none waits for another's data plane. A paused FleetConfig holds all of them."""

    configs: Entries
    namespaces: Entries
    deployer: StackDeployer
    teardown: StackTeardown
    known: KnownTargets
    lost: LostRecords
    """Whether the status that permits a teardown is an older one."""
    warn: Callable[[Entry, str], None]
    """Records a Warning event on a namespace."""
    _warned: set[tuple[str, str]] = field(default_factory=set, init=False)

    async def reconcile(self, request: Request) -> Result | None:
        """Raise the client's errors of the hub."""
        config = self.configs.get(NAME, namespace="")
        if config is None or is_paused(config.annotations):
            return None
        typed = config.typed(FleetConfig)
        mode = mode_of(typed)
        if mode is None:
            return None
        owner = Owner.of(config)
        entry = self.namespaces.get(request.name, namespace="")
        if entry is None or entry.deletion_timestamp is not None:
            await self._gone(request.name, mode, owner, deleted=entry is None)
            return None
        self._check_label(entry)
        if mode.wants(entry):
            return await self._deploy(entry, mode, owner)
        if is_former(entry, mode):
            if is_mistyped(entry):
                self.known.record_leftover(entry.name, MISTYPED)
                return None
            if goes_by_config(entry, mode) and not (
                is_permitted(typed, entry) and not await self.lost.report_older(config)
            ):
                self.known.record_leftover(entry.name, WAITS)
                return None
            return await self._tear_down(entry, owner)
        await self._gone(entry.name, mode, owner, deleted=False)
        return None

    async def _deploy(self, entry: Entry, mode: Mode, owner: Owner) -> Result | None:
        try:
            look = await self.deployer.deploy(entry, mode, owner)
        except (APIError, TransportError) as error:
            if isinstance(error, NotFound) and self._is_leaving(entry.name):
                return None
            self.known.record(entry.name, Outcome(Reason.DEPLOYMENT_FAILURE, refused(error)))
            raise
        if look.outcome is not None:
            self.known.record(entry.name, look.outcome)
        return None if look.again is None else Result(requeue_after=look.again)

    async def _tear_down(self, entry: Entry, owner: Owner) -> Result | None:
        try:
            left = await self.teardown.run(entry, owner)
        except (APIError, TransportError) as error:
            if isinstance(error, NotFound) and self._is_leaving(entry.name):
                return None
            self.known.record_leftover(entry.name, refused(error))
            raise
        if left:
            self.known.record_leftover(entry.name, left)
            return Result(requeue_after=AGAIN)
        await self._gone(entry.name, Mode(scale=True), owner, deleted=False)
        return None

    async def _gone(self, name: str, mode: Mode, owner: Owner, *, deleted: bool) -> None:
        """Forget a namespace, and take its account's rights away; one that is configured by its name is missed."""
        await self.deployer.forget(name)
        await self.deployer.bindings.delete_known(name, owner)
        if deleted and mode.namespace == name:
            message = (
                f"namespace {name} does not exist; create it (kubectl create namespace {name})"
            )
            self.known.record(name, Outcome(Reason.DEPLOYMENT_FAILURE, message))
        else:
            self.known.forget(name)

    def _is_leaving(self, name: str) -> bool:
        entry = self.namespaces.get(name, namespace="")
        return entry is None or entry.deletion_timestamp is not None

    def _check_label(self, entry: Entry) -> None:
        key = (entry.uid, entry.labels.get(DATA_PLANE, ""))
        if not is_mistyped(entry) or key in self._warned:
            return
        self._warned.add(key)
        self.warn(
            entry, f'the label {DATA_PLANE} has the value "{key[1]}" and is ignored; write "true"'
        )


def refused(error: Exception) -> str:
    """Return what an error of the hub's API server means."""
    return f"the hub refused a request ({error}); it is tried again, look at the operator's rights"


def releases_plane(old: Entry, new: Entry | None) -> bool:
    """Return whether a namespace gave a data plane up, which another one may wait for."""
    before = old.annotations.get(DATA_PLANE_ID)
    return before is not None and (new is None or new.annotations.get(DATA_PLANE_ID) != before)

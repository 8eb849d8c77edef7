"""Deploys the stack of one namespace, and finds out how it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from apis.fleet import Reason
from apis.fleet.fleetconfig import StackPods
from apis.fleet.labels import ADMISSION_URL, DATA_PLANE_ID, LEASE, PLANE_NAMESPACE, TARGET_NAMESPACE
from ctrlruntime.cache.entry import Entry
from ctrlruntime.client.object_patcher import ObjectPatcher
from ctrlruntime.resources import Owner
from internal.fleet.admission_url import BadAdmissionURL, check_admission_url
from internal.fleet.binding_control import BindingControl
from internal.fleet.identities import Identities, check_same
from internal.fleet.plane_access import MISSING, PlaneAccess, access_of
from internal.fleet.plane_check import NAMESPACE
from internal.fleet.plane_checks import PlaneChecks
from internal.fleet.planes import Plane, Planes
from internal.fleet.stack_builder import Proof, StackOptions, build_stack
from internal.fleet.stack_control import StackControl
from internal.fleet.targets import TRUE, KnownTargets, Mode, Outcome, TargetError
from internal.fleet.waves import Health, Stack, waits_for

DEPLOYED = Outcome(Reason.SUCCESSFUL_DEPLOYMENT, "Namespace deployed successfully")
LISTED_WITHIN = 1.0
"""Seconds until it is looked again whether the Lease was listed, which takes no request."""


UNWATCHED: Final = (
    "the data plane answers, and its watches deliver nothing: its Lease is not what the watch has shown for a minute; "
    "let the proxies and load balancers before its API server pass streams on as they come, without a buffer"
)


@dataclass(slots=True)
class Look:
    """One look at a namespace: what came out, and when to look again."""

    outcome: Outcome | None = None
    """None: not known yet."""
    again: float | None = None
    """Seconds."""

    def within(self, seconds: float) -> None:
        """Look again within that time."""
        self.again = max(0.01, seconds if self.again is None else min(self.again, seconds))


@dataclass(slots=True)
class StackDeployer:
    """Deploys stacks, one namespace independent of the other."""

    secret_of: Callable[[str], Mapping[str, Any] | None]
    """Returns the `data` of a namespace's Secret; None if there is no Secret."""
    stack: StackControl
    bindings: BindingControl
    patcher: ObjectPatcher
    identities: Identities
    checks: PlaneChecks
    planes: Planes
    known: KnownTargets
    options: StackOptions
    clock: Callable[[], datetime]
    _accesses: dict[str, tuple[object, PlaneAccess]] = field(default_factory=dict)

    async def deploy(self, entry: Entry, mode: Mode, owner: Owner) -> Look:
        """Deploy the stack. Raises the client's errors of the hub; what is wrong otherwise is the outcome."""
        look = Look()
        try:
            await self._mark(entry)
            if mode.scale:
                look.outcome = await self._deploy_for_plane(entry, mode.pods, owner, look)
            else:
                look.outcome = await self._deploy_here(entry, mode.pods, owner)
        except TargetError as error:
            look.outcome = error.outcome
            if error.outcome.reason is Reason.DEPLOYMENT_FAILURE:
                look.within(self.checks.times.longest_retry)
        return look

    async def forget(self, name: str) -> None:
        """Forget all about a namespace's data plane."""
        self.checks.forget(name)
        self._accesses.pop(name, None)
        await self.planes.disengage(name)

    async def _mark(self, entry: Entry) -> None:
        """Label the namespace before anything is made there: what has the label is torn down later."""
        if entry.labels.get(TARGET_NAMESPACE) != TRUE:
            await self._patch(entry, labels={TARGET_NAMESPACE: TRUE})

    async def _deploy_here(self, entry: Entry, pods: StackPods, owner: Owner) -> Outcome:
        await self.forget(entry.name)
        await self.bindings.delete_known(entry.name, owner)
        layout = self.stack.layout(entry.name, pods.shards)
        desired = build_stack(entry.name, self.options, pods=pods, layout=layout)
        await self.stack.ensure(desired, owner)
        self.stack.check_available(entry.name, desired)
        return deployed(members=layout.shards)

    async def _deploy_for_plane(
        self, entry: Entry, pods: StackPods, owner: Owner, look: Look
    ) -> Outcome | None:
        bound = DATA_PLANE_ID in entry.annotations
        if bound:  # whatever its data plane is like: a label that was removed takes rights away
            await self.bindings.ensure(entry.name, owner)
        access = self._access(entry.name, look)
        identity = await self._prove(entry, access, look)
        if identity is None:
            return None
        if not bound:
            await self.bindings.ensure(entry.name, owner)
        plane = await self.planes.engage(entry.name, access.digest, access.config)
        self._check_identity(entry, plane)
        url, flaw = _admission_url(entry)
        proof = Proof(access.digest, identity)
        held = self._held(entry.name, proof, look)
        layout = self.stack.layout(entry.name, None if held else pods.shards)
        desired = build_stack(entry.name, self.options, proof, url, pods, layout)
        wrote = False if held else await self.stack.ensure(desired, owner)
        if self.planes.is_stale(plane):
            self._check_stale(entry, access, plane, look)
            return None
        if plane.renewed_at is None and not wrote and not plane.is_listed():
            look.within(LISTED_WITHIN)
            return None  # after a start: what was reported before stands until the watch shows more
        self.stack.check_available(entry.name, desired)
        if plane.renewed_at is None:
            raise _unheld("hold the Lease")
        if flaw:
            raise TargetError(Reason.DEPLOYMENT_FAILURE, flaw)
        notes = (access.config.insecurity, access.ending(self.clock()), held)
        return deployed(*notes, members=layout.shards)

    def _held(self, name: str, proof: Proof, look: Look) -> str:
        """Return what a new image of the stack waits for; empty: it is deployed. Another kubeconfig does not wait."""
        image = self.options.image
        own = self.stack.images(name).get(name, frozenset())
        if image in own or (proof.digest, proof.identity) not in self.stack.proofs(name):
            return ""
        images = self.stack.images()
        stacks = [
            Stack(each, images[each], self._health(each, image in images[each]))
            for each in images
            if each not in self.known.leftovers
        ]
        held = waits_for(name, stacks, image)
        if held:
            look.within(self.checks.times.retry + len(stacks) / 10)
        return held

    def _health(self, name: str, rolling: bool) -> Health:
        """Return how a stack is. `rolling`: it has the new image, which counts once all its Pods are of it."""
        outcome = self.known.outcomes.get(name)
        if outcome is None:
            return Health.UNKNOWN
        if outcome.reason is Reason.STACK_NOT_AVAILABLE:
            return Health.UNAVAILABLE
        if outcome.reason is not Reason.SUCCESSFUL_DEPLOYMENT:
            return Health.FAILING
        return Health.UNAVAILABLE if rolling and not self.stack.is_rolled(name) else Health.HEALTHY

    def _access(self, name: str, look: Look) -> PlaneAccess:
        """Read the kubeconfig. Raises TargetError."""
        data = self.secret_of(name)
        if data is None:
            raise TargetError(Reason.KUBECONFIG_SECRET_MISSING, MISSING)
        known, access = self._accesses.get(name, (None, None))
        if access is None or known != data:
            access = access_of(data)
            self._accesses[name] = (data, access)
        now = self.clock()
        access.check(now)
        for moment in (access.warns, access.expires):
            if moment is not None and moment > now:
                look.within((moment - now).total_seconds())
        return access

    async def _prove(self, entry: Entry, access: PlaneAccess, look: Look) -> str | None:
        """Return the id of the data plane if the kubeconfig is known to work, None if it is not known yet.

        A kubeconfig that workloads were deployed with, for this data plane, is not checked again. Raises TargetError.
        """
        recorded = entry.annotations.get(DATA_PLANE_ID, "")
        if recorded and (access.digest, recorded) in self.stack.proofs(entry.name):
            self.identities.check(entry.name, recorded)
            return recorded
        result = self.checks.result(entry.name, access)
        if result is None or result.failure is not None:
            look.within(self.checks.request(entry.name, access))
            if result is not None and result.failure is not None:
                raise TargetError(result.failure.reason, result.failure.message)
            return None
        try:
            check_same(entry, result.identity)
            self.identities.check(entry.name, result.identity)
        except TargetError:
            look.within(self.checks.request(entry.name, access))
            raise
        if not recorded:
            await self._claim(entry, result.identity)
        return result.identity

    async def _claim(self, entry: Entry, identity: str) -> None:
        self.identities.claim(entry.name, identity)
        try:
            await self._patch(entry, annotations={DATA_PLANE_ID: identity})
        finally:
            self.identities.release(identity)

    def _check_identity(self, entry: Entry, plane: Plane) -> None:
        """Raise TargetError if the watch shows another data plane than the one recorded."""
        check_same(entry, plane.identity)

    def _check_stale(self, entry: Entry, access: PlaneAccess, plane: Plane, look: Look) -> None:
        """Find out why the Lease is not renewed. Raises TargetError once that is known."""
        result = self.checks.result(entry.name, access)
        look.within(self.checks.request(entry.name, access, write=True))
        since = self.planes.clock() + plane.stale_in(self.planes.clock(), self.planes.unrenewed)
        if result is None or result.at < since:
            return
        if result.failure is not None:
            raise TargetError(result.failure.reason, result.failure.message)
        check_same(entry, result.identity)
        if result.renewal and result.renewal != plane.renewal:
            raise TargetError(Reason.UNREACHABLE, UNWATCHED)
        raise _unheld(f"have renewed the Lease for {self.planes.unrenewed:.0f} s")

    async def _patch(self, entry: Entry, **metadata: Mapping[str, str]) -> None:
        await self.patcher.patch_metadata(NAMESPACE, entry, metadata, metadata_only=True)


def deployed(*notes: str, members: int = 0) -> Outcome:
    """Return the outcome of a stack that is healthy, with its members; `notes`, of what is insecure or still held, stay visible."""
    share = f", {members} members share its Tenants" if members else ""
    noted = "; ".join(filter(None, notes))
    but = f", but {noted}" if noted else ""
    return Outcome(DEPLOYED.reason, f"{DEPLOYED.message}{share}{but}")


def _admission_url(entry: Entry) -> tuple[str, str]:
    """Return the address of the admission webhooks, and what is wrong with it. A wrong one counts as none."""
    text = entry.annotations.get(ADMISSION_URL, "")
    try:
        return (check_admission_url(text) if text else ""), ""
    except BadAdmissionURL as error:
        return "", str(error)


def _unheld(what: str) -> TargetError:
    return TargetError(
        Reason.STACK_NOT_AVAILABLE,
        f"no controllers {what} {PLANE_NAMESPACE}/{LEASE} on the data plane; look at the log of the Pods of {LEASE}",
    )

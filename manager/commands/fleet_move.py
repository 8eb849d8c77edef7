"""`manager fleet move`: a Tenant goes to another data plane, and its workloads stay where they are."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import click
from pydantic import ValidationError

from apis.fleet.labels import DATA_PLANE, MOVING_TO
from apis.tenancy import Tenant, TenantRegistry, TenantTemplate
from ctrlruntime.api import BUILTIN, GroupVersionKind, Manifest, RESTMapping
from ctrlruntime.client import AlreadyExists, Client, Conflict, NotFound
from ctrlruntime.clock import monotonic
from ctrlruntime.controller.annotations import PAUSED, is_paused
from ctrlruntime.gate import Cause, Evidence
from ctrlruntime.resources import OWNER, OWNER_UID, Owner, owner_key, removal_of, remove_object
from internal.fleet.hub import parallel_label
from internal.fleet.move import (
    copied,
    handed_over,
    next_step,
    next_step_back,
    paused_source,
    unrecorded,
)
from internal.fleet.move_state import (
    MoveRefused,
    MoveState,
    OtherRegistry,
    Step,
    annotations_of,
    is_deleting,
    is_of_registry,
    uid_of,
)
from internal.fleet.registry_move import marked, recorded
from internal.fleet.stack_lease import record_move
from internal.fleet.targets import TRUE
from internal.tenancy.objects.values import SECRET
from internal.tenancy.shared.policies import is_orphaned
from internal.tenancy.sync.tenants import Blueprint
from manager.commands.output import echo
from manager.commands.plane_clients import proved_plane
from manager.commands.plane_objects import ON_HUB
from manager.commands.plane_stacks import stack_problem
from manager.flags.cluster import cluster_options, talk

NAMESPACE: Final = BUILTIN[GroupVersionKind("", "v1", "Namespace")]
TENANT: Final = Tenant.mapping()
PERIOD: Final = 0.5
"""Seconds between two observations while a stack is waited for."""

RELIST: Final = 30.0
"""Seconds until the hub is listed again while neither Tenant changes."""

HubObject = tuple[RESTMapping, Manifest]
TEMPLATE: Final = TenantTemplate.mapping()
REGISTRY: Final = TenantRegistry.mapping()


@click.command()
@cluster_options
@click.argument("tenant")
@click.option("--from", "source", required=True, help="Target namespace of its data plane.")
@click.option("--to", "target", required=True, help="Target namespace of the other data plane.")
@click.option("--timeout", default=300.0, help="Seconds to wait for the stacks.", show_default=True)
@click.option(
    "--abort", is_flag=True, help="Give a move up, before anything of the hub was handed over."
)
def move(
    kubeconfig: Path | None,
    context: str | None,
    tenant: str,
    namespace: str,
    source: str,
    target: str,
    timeout: float,
    abort: bool,
) -> None:
    """Move a TENANT to another data plane; what it has on the hub stays, and nothing rolls.

    The stacks of both data planes have to run. A move that was interrupted goes on when the same command is run again.
    The row of a Tenant that a registry made is yours to move: when the command waits for that, take it out of the view
    of the one data plane and into that of the other.
    What is on the data plane itself (ConfigMaps that no workload reads, for instance) is created again on the other one.
    """

    async def conversation(hub: Client) -> None:
        async with (
            proved_plane(hub, source) as (left, source_id),
            proved_plane(hub, target) as (made, target_id),
        ):
            if source_id == target_id:
                raise click.ClickException(f"{source} and {target} are of one data plane")
            moving = Move(hub, left, made, source_id, target_id, source, target, tenant, namespace)
            try:
                async with asyncio.timeout(timeout):
                    await moving.run(next_step_back if abort else next_step)
            except TimeoutError:
                raise click.ClickException(
                    f"not moved within {timeout:g} s, last: {moving.last.value}; {_advice(moving.last, source, target)}, "
                    "and run this again"
                ) from None
            except MoveRefused as error:
                raise click.ClickException(f"Tenant {namespace}/{tenant}: {error}") from None

    talk(kubeconfig, context, conversation)


def _advice(last: Step, source: str, target: str) -> str:
    """Return what to do where a move did not get beyond a step."""
    if last in {Step.AWAIT_LEAVING, Step.AWAIT_ROW}:
        return "the Tenant stays until then; look at the row and at both registries"
    return f"look at the stacks in {source} and {target}"


@dataclass(frozen=True, slots=True)
class _Listed:
    """What the hub had of the Tenant."""

    versions: tuple[str, str]
    """Of both Tenants by then."""
    at: float
    objects: list[HubObject]
    adopted: list[HubObject]


@dataclass(slots=True)
class Move:
    """One Tenant on its way. Each round reads what there is, and does what is next.

    What the hub has is listed again after a write, and when one of the Tenants has changed: a move that waits costs two
    reads each round.
    """

    hub: Client
    left: Client
    made: Client
    source_id: str
    target_id: str
    source: str
    """The target namespace of the data plane that it leaves."""
    target: str
    """The target namespace of the data plane that it goes to."""
    name: str
    namespace: str
    last: Step = Step.PAUSE
    _listed: _Listed | None = None

    async def run(self, decide: Callable[[MoveState], Step]) -> None:
        """Go on until the Tenant is moved, or the move given up. Raises MoveRefused and the client's errors."""
        reported: Step | None = None
        while True:
            state, objects = await self._observe()
            self.last = decide(state)
            if self.last is not reported:
                echo(f"{time.strftime('%H:%M:%S')} {self.last.value}")
                reported = self.last
            if self.last in {Step.DONE, Step.ABORTED}:
                return
            await self._carry_out(self.last, state, objects)

    async def _observe(self) -> tuple[MoveState, list[HubObject]]:
        left, made = await self._get(self.left), await self._get(self.made)
        objects, adopted = await self._of_hub((_version(left), _version(made)))
        state = MoveState(
            self.source_id,
            self.target_id,
            left,
            made,
            [_owner_uid(each) for _, each in objects],
            [uid for _, each in adopted if (uid := _owner_uid(each)) or not _is_retained(each)],
        )
        if left is not None and is_of_registry(left):
            state = await self._with_registry(state, left)
        return state, objects

    async def _of_hub(self, versions: tuple[str, str]) -> tuple[list[HubObject], list[HubObject]]:
        """Return what the hub has of the Tenant of each data plane, listed if it may have changed."""
        known = self._listed
        if known is None or known.versions != versions or monotonic() > known.at + RELIST:
            objects = await self._hub_objects(self.source_id)
            adopted = await self._hub_objects(self.target_id)
            self._listed = known = _Listed(versions, monotonic(), objects, adopted)
        return known.objects, known.adopted

    async def _with_registry(self, state: MoveState, left: Manifest) -> MoveState:
        """Return the state with what matters of a Tenant that a registry made."""
        if MOVING_TO not in annotations_of(left):
            return replace(state, other=await other_registry(self.made, left))
        if state.made is None:
            return state
        same = await same_values(self.left, left, self.made, state.made)
        return replace(state, same_values=same)

    async def _carry_out(self, step: Step, state: MoveState, objects: list[HubObject]) -> None:
        listed, self._listed = self._listed, None
        try:
            if state.left is not None and await self._write_left(step, state.left, objects):
                return
            if state.made is not None and await self._write_made(step, state.made, objects):
                return
            if step is Step.COPY and state.left is not None:
                await self.made.create(copied(state.left, self.source_id))
                return
            self._listed = listed
            await asyncio.sleep(PERIOD)
        except (AlreadyExists, Conflict):
            return  # not what was observed: observe again
        except NotFound as error:
            if step is not Step.COPY:
                return
            raise MoveRefused(
                f"the other data plane has no place for it ({error.message}); create the namespace there"
            ) from error

    async def _write_left(self, step: Step, left: Manifest, objects: list[HubObject]) -> bool:
        """Carry out a step that changes the Tenant that is left. Return whether it is one."""
        match step:
            case Step.RECORD:
                await self._check_stacks()
                await self._check_grants(objects)
                await record_move(self.left, self.target_id)
                await self._patch(self.left, recorded(left, self.target_id))
            case Step.PAUSE:
                await self._check_stacks()
                await self._check_grants(objects)
                await record_move(self.left, self.target_id)
                await self._patch(self.left, paused_source(left, self.target_id))
            case Step.DELETE:
                await self._delete(self.left, left)
            case Step.RELEASE:
                await self._patch(self.left, _WITHOUT_PAUSE)
            case Step.UNRECORD:
                await self._patch(self.left, unrecorded(left))
            case _:
                return False
        return True

    async def _write_made(self, step: Step, made: Manifest, objects: list[HubObject]) -> bool:
        """Carry out a step that changes the new Tenant, or gives objects to it. Return whether it is one."""
        match step:
            case Step.MARK:
                await self._check_target()
                await self._check_grants(objects)
                await self._patch(self.made, marked(made, self.source_id))
            case Step.HAND_OVER:
                await self._check_target()
                await record_move(self.left, self.target_id)
                await self._hand_over(objects, made)
            case Step.RESUME:
                await self._patch(self.made, _RESUMED)
            case Step.UNMARK:
                await self._patch(self.made, marked(made, None))
            case Step.DROP_COPY:
                await self._delete(self.made, made)
            case _:
                return False
        return True

    async def _delete(self, plane: Client, found: Manifest) -> None:
        removal = removal_of(TENANT, found["metadata"], Cause.MOVED, Evidence.CERTAIN)
        await remove_object(plane, TENANT, removal)

    async def _hand_over(self, objects: list[HubObject], made: Manifest) -> None:
        owner = Owner(
            gvk=Tenant.gvk(),
            namespace=self.namespace,
            name=self.name,
            uid=uid_of(made),
            cluster=self.target_id,
        )
        for mapping, found in objects:
            metadata = found["metadata"]
            await self.hub.patch(
                mapping,
                metadata["name"],
                handed_over(found, owner),
                namespace=metadata.get("namespace"),
                metadata_only=True,
            )

    async def _check_stacks(self) -> None:
        """Raise MoveRefused unless both stacks run: without one the Tenant would stay paused."""
        if problem := await stack_problem(self.left, self.source):
            raise MoveRefused(problem)
        await self._check_target()

    async def _check_target(self) -> None:
        """Raise MoveRefused unless the other stack runs: what is handed over to it has no other."""
        if problem := await stack_problem(self.made, self.target):
            raise MoveRefused(problem)

    async def _check_grants(self, objects: list[HubObject]) -> None:
        """Raise MoveRefused if the other stack may not write where the Tenant has objects."""
        label = parallel_label(self.target)
        for place in sorted({each["metadata"].get("namespace", "") for _, each in objects} - {""}):
            found = await self.hub.get(NAMESPACE, place, metadata_only=True)
            if (found["metadata"].get("labels") or {}).get(label) != TRUE:
                raise MoveRefused(
                    f"the stack of {self.target} may not write in namespace {place} of the hub: "
                    f"kubectl label namespace {place} {label}=true"
                )

    async def _hub_objects(self, plane: str) -> list[HubObject]:
        """List what the hub has of the Tenant as one of this data plane."""
        key = owner_key(Tenant.gvk(), self.name, namespace=self.namespace, cluster=plane)
        found: list[HubObject] = []
        for mapping in (NAMESPACE, *ON_HUB):
            items = await self.hub.list(mapping, labels=f"{DATA_PLANE}={plane}", metadata_only=True)
            found += [(mapping, each) for each in items if _annotation(each, OWNER) == key]
        return found

    async def _get(self, plane: Client) -> Manifest | None:
        try:
            return await plane.get(TENANT, self.name, namespace=self.namespace)
        except NotFound:
            return None

    async def _patch(self, plane: Client, patch: Manifest) -> None:
        await plane.patch(TENANT, self.name, patch, namespace=self.namespace)


_WITHOUT_PAUSE: Final[Manifest] = {"metadata": {"annotations": {PAUSED: None}}}
_RESUMED: Final[Manifest] = {"metadata": {"annotations": {PAUSED: None, MOVING_TO: None}}}


def _version(found: Manifest | None) -> str:
    return "" if found is None else str(found["metadata"]["resourceVersion"])


def _annotation(found: Manifest, name: str) -> str:
    return str(annotations_of(found).get(name, ""))


def _owner_uid(found: Manifest) -> str:
    return _annotation(found, OWNER_UID)


def _is_retained(found: Manifest) -> bool:
    """Whether the object was kept when it left its Tenant: it has no owner, and gets none."""
    return is_orphaned(found["metadata"].get("labels") or {})


async def other_registry(plane: Client, left: Manifest) -> OtherRegistry:
    """Return what a data plane has to make this Tenant from its row. Raises the client's errors."""
    namespace = left["metadata"]["namespace"]
    template = await _read(plane, TEMPLATE, left["spec"].get("templateRef"), namespace=namespace)
    if template is None or is_deleting(template):
        return OtherRegistry()
    try:
        revision = Blueprint.of(TenantTemplate.model_validate(template)).revision
    except ValidationError:
        return OtherRegistry()
    name = template["spec"].get("registryId")
    registry = await _read(plane, REGISTRY, name, namespace=namespace)
    return OtherRegistry(
        revision=revision,
        registry=str(name),
        found=registry is not None and not is_deleting(registry),
        paused=any(
            each is not None and is_paused(annotations_of(each)) for each in (template, registry)
        ),
    )


async def same_values(left: Client, one: Manifest, made: Client, other: Manifest) -> bool:
    """Return whether the sensitive values of two Tenants are equal. Raises the client's errors."""
    if not one["spec"].get("sensitiveVariables") or not other["spec"].get("sensitiveVariables"):
        return True  # the specs differ, or there are none
    return await _values(left, one) == await _values(made, other)


async def _values(plane: Client, tenant: Manifest) -> object:
    name = tenant["spec"]["sensitiveVariables"].get("secretName")
    found = await _read(plane, SECRET, name, namespace=tenant["metadata"]["namespace"])
    return None if found is None else found.get("data")


async def _read(
    plane: Client, mapping: RESTMapping, name: object, *, namespace: str
) -> Manifest | None:
    """Return an object, or None; also without a name."""
    if not name:
        return None
    try:
        return await plane.get(mapping, str(name), namespace=namespace)
    except NotFound:
        return None

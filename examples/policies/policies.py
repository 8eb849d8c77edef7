"""Policies over kinds that only users name: what an object has to have, reported in the status and as a label."""

from collections.abc import Iterable
from typing import Annotated, Any, TypeAlias

from pydantic import Field

from ctrlruntime import (
    ApiModel,
    Builder,
    Conditions,
    Config,
    Entry,
    GroupVersionKind,
    Immutable,
    Int32,
    Manager,
    ManagerOptions,
    Manifest,
    NoKindMatch,
    NotFound,
    NotSynced,
    PrintColumn,
    Request,
    Resource,
    Result,
    enqueue_map_func,
    run,
)
from ctrlruntime.controller import KindSource
from ctrlruntime.lifecycle import Lifecycle, ObjectPass

Json: TypeAlias = "dict[str, Json] | list[Json] | str | float | None"

FINALIZER = "policy.example.com/labels"
LABEL = "violates.policy.example.com"
"""The prefix of the label that objects have which violate a policy; the policy's name follows it."""
SHOWN = 20
"""Violations in a status; the count is of all."""
SYNC_CHECKED_EVERY = 2.0
"""Seconds. No event reports that a kind is served and listed, if it has no object."""


class Rule(ApiModel):
    """A field that has to be there, as `spec.template.spec.containers.image`: in each item of a list."""

    path: Annotated[str, Field(pattern=r"^[^.]+(\.[^.]+)*$")]
    allowed: list[str] = Field(default_factory=list)
    """The values that it may have, as texts; none: any."""


class PolicySpec(ApiModel):
    """What the objects of one kind, in the policy's namespace, have to have."""

    kind: Annotated[str, Immutable()]
    """As `apps/v1/Deployment` or `Deployment.v1.apps`."""
    rules: Annotated[list[Rule], Field(min_length=1, max_length=50)]


class Violation(ApiModel):
    """An object, and what is wrong with it."""

    name: str
    message: str


class PolicyStatus(ApiModel):
    """What was found."""

    observed_generation: int = 0
    last_handled_reconcile: str = ""
    checked: Int32 = 0
    violating: Int32 = 0
    violations: list[Violation] = Field(default_factory=list)
    conditions: Conditions = Field(default_factory=list)


class Policy(
    Resource[PolicySpec, PolicyStatus],
    group="policy.example.com",
    version="v1",
    print_columns=(
        PrintColumn("Kind", ".spec.kind"),
        PrintColumn("Violating", ".status.violating", type="integer"),
    ),
):
    """Rules for all objects of a kind in a namespace."""


def problems(rules: Iterable[Rule], manifest: Manifest) -> list[str]:
    """Return what an object lacks, a text for each rule that it breaks."""
    found: list[str] = []
    for rule in rules:
        values = list(values_at(manifest, rule.path.split(".")))
        if not values or None in values:
            found.append(f"{rule.path} is not set")
        elif wrong := [each for each in values if rule.allowed and str(each) not in rule.allowed]:
            found.append(f"{rule.path} is {wrong[0]}, not one of {', '.join(rule.allowed)}")
    return found


def values_at(value: Json, path: list[str]) -> Iterable[Json]:
    """Yield the values at a path, through the items of lists; None where there is none."""
    if isinstance(value, list):
        for item in value:
            yield from values_at(item, path)
    elif not path:
        yield value
    elif isinstance(value, dict):
        yield from values_at(value.get(path[0]), path[1:])
    else:
        yield None


def label_of(policy: Policy) -> str:
    """Return the label of the objects that violate a policy. Raises ValueError for a name that none can carry."""
    name = policy.metadata.name
    if len(name) > 63:
        raise ValueError(f"{name}: a name of more than 63 characters fits into no label")
    return f"{LABEL}/{name}"


def target_of(policy: Policy) -> GroupVersionKind | None:
    """Return the kind that a policy names; None for a text that names none."""
    try:
        return GroupVersionKind.from_string(policy.spec.kind)
    except ValueError:
        return None


class Policies:
    """Checks objects, and watches each kind for as long as a policy names it."""

    def __init__(self, manager: Manager) -> None:
        self._cache, self._client = manager.cache, manager.client
        self._watched: dict[GroupVersionKind, KindSource] = {}
        life = Lifecycle(Policy, finalizer=FINALIZER, reconcile=self.check, tear_down=self.clear)
        builder = (
            Builder(manager).for_(Policy).permission("*", "*", "get", "list", "watch", "patch")
        )
        self._controller = builder.build(life.reconciler(manager))

    async def check(self, policy: Policy, this: ObjectPass) -> Result | None:
        """Look at every object of the kind, and label those that violate."""
        try:
            kind, label = GroupVersionKind.from_string(policy.spec.kind), label_of(policy)
        except ValueError as error:
            this.set_ready(policy, False, "Invalid", str(error))
            return None
        await self._follow()
        try:
            objects = self._cache.list(kind, policy.metadata.namespace)
        except NotSynced:
            this.set_ready(policy, False, "NotListed", self._why_not(kind))
            return Result(requeue_after=SYNC_CHECKED_EVERY)
        violations: list[Violation] = []
        for each in objects:
            found = "; ".join(problems(policy.spec.rules, each))
            if found:
                violations.append(Violation(name=each["metadata"]["name"], message=found))
            await self._label(kind, each, label, is_there=bool(found))
        policy.status.checked, policy.status.violating = len(objects), len(violations)
        policy.status.violations = sorted(violations, key=lambda each: each.name)[:SHOWN]
        this.set_ready(policy, True, "Checked", f"{len(violations)} of {len(objects)} violate it")
        return None

    async def clear(self, policy: Policy, this: ObjectPass) -> Result | None:
        """Take the labels of a policy that goes away from all objects; its watch ends with the last policy of the kind."""
        await self._follow()
        kind = target_of(policy)
        if kind is None or len(policy.metadata.name) > 63:
            return None
        label, namespace = label_of(policy), policy.metadata.namespace
        try:
            labelled = await self._client.live.list(kind, namespace, labels=label)
        except NoKindMatch:
            return None  # its objects went with the kind
        for each in labelled:
            await self._label(kind, each, label, is_there=False)
        return None

    async def _follow(self) -> None:
        """Watch exactly the kinds that policies name."""
        policies = self._cache.list(Policy)
        living = [each for each in policies if each.metadata.deletion_timestamp is None]
        wanted = {kind for each in living if (kind := target_of(each)) is not None}
        for kind in sorted(wanted - self._watched.keys()):
            handler = enqueue_map_func(self._policies_for)
            self._watched[kind] = KindSource(self._cache, kind, handler, optional=True)
            self._controller.watch(self._watched[kind])
        for kind in sorted(self._watched.keys() - wanted):
            await self._controller.unwatch(self._watched.pop(kind))

    def _policies_for(self, entry: Entry[Any]) -> list[Request]:
        """Return the policies that an object concerns."""
        policies = self._cache.list(Policy, entry.namespace)
        return [
            Request(each.metadata.name, namespace=each.metadata.namespace)
            for each in policies
            if target_of(each) == entry.gvk
        ]

    def _why_not(self, kind: GroupVersionKind) -> str:
        if kind in self._cache.missing():
            return f"the server does not serve {kind}: install its CRD, or correct spec.kind"
        failure = self._cache.failed().get(kind)
        return f"{kind} is not listed yet" + (f": {failure}" if failure else "")

    async def _label(
        self, kind: GroupVersionKind, manifest: Manifest, label: str, *, is_there: bool
    ) -> None:
        metadata = manifest["metadata"]
        if (label in metadata.get("labels", {})) == is_there:
            return
        patch = {"metadata": {"labels": {label: "true" if is_there else None}}}
        try:
            await self._client.patch(
                kind, metadata["name"], patch, namespace=metadata.get("namespace")
            )
        except NotFound:
            return  # it is gone, and its event follows


def setup(manager: Manager) -> None:
    """Add the controller."""
    Policies(manager)


OPTIONS = ManagerOptions(
    name="policies", handle_signals=True, leader_election=True, leader_election_id="policies"
)


async def main() -> None:
    """Run it until it is stopped."""
    manager = Manager(await Config.load(), OPTIONS)
    setup(manager)
    await manager.start()


if __name__ == "__main__":
    run(main())

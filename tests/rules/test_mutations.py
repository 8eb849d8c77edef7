"""Rule 4 of the design, its second half: what a changed field did is over when the change is taken back.

Acto's mutation of every leaf of every spec, from the product's CRDs themselves. A leaf is set where it is not, then
replaced by a value of chance, then put back. While a value stands the object is observed, and nothing that
holds data is deleted; afterwards everything is as it was in the calm. `make faults` takes every leaf, the
suite a few of each kind; both print their seed.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import random
import re
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from ctrlruntime.api.kinds import RESTMapping
from ctrlruntime.client.errors import APIError, BadRequest, Conflict, Invalid
from ctrlruntime.json import Json
from internal.fleet.stack_builder import StackOptions
from manager.controllers.fleet import OperatorOptions, add_operator
from tests.rules.harness import LIMIT, Harness, crds, is_observed, mapping_of, verdicts
from tests.rules.schema_objects import spec_schema
from tests.rules.spec_leaves import (
    ABSENT,
    Leaf,
    leaves_of,
    odd,
    plausible,
    replaced,
    transition_rules,
    value_at,
    with_ancestors,
)
from tests.rules.story import Story, outcome_of
from tests.rules.subjects import Subject, subjects_of
from tests.support.manager_harness import make_manager

SEED = 20261123
FEW = 3
"""How many leaves of a kind the suite takes."""
KEPT = ("PersistentVolumeClaim", "Tenant", "Instance", "CosmosFullNode", "TenantRegistry", "Secret")
"""Objects of these kinds that the calm has outlast every mutation, with their UID."""
REMOVING = {
    "instanceOverrides.{}.disable": "All takes the claim away with the Pod, as its text says",
    "CosmosFullNode.spec.replicas": "the claims of nodes that are gone go, but at zero",
    "CosmosFullNode.spec.ordinals.start": "nodes of other numbers are other nodes",
}
"""Ends of leaves with a value that removes what holds data, and why."""
ONE_WAY = {
    "volumeClaimTemplate.resources.requests.storage": "disks only grow",
}
"""Ends of leaves whose former value does not bring back the former state, and why."""


IDENTITY = re.compile(r"Secret/shop-(?!0-|1-)\d+-node-key|Secret/.+-generated")
"""Keys of nodes that the calm does not have: they stay, so that a node that comes back is known to its peers. Values
that were drawn for a tenant: they stay, so that they are the same when they are wanted again."""

RECORDS = ("tenancy.ctrlruntime.dev/created-once", "tenancy.ctrlruntime.dev/kinds")
"""Annotations that record what was: they go with the next change of their object, not with its cause."""


def test_every_leaf_of_every_crd_is_mutated() -> None:
    """The plan is made from the CRDs: each path that a CRD's text has below `spec` is in it, with values."""
    for kind, crd in crds().items():
        planned = leaves_of(kind)
        assert {leaf.path[0] for leaf in planned} == set(spec_schema(crd)["properties"])
        assert len({leaf.path for leaf in planned}) == len(planned) == _count(spec_schema(crd))
        covered = [leaf for subject in subjects_of(kind) for leaf in subject.leaves()]
        assert sorted(map(str, covered)) == sorted(map(str, planned))
        for leaf in planned:
            assert len(odd(leaf, random.Random(SEED))) > 1 or leaf.schema.get("enum"), leaf


def test_a_new_field_is_in_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    changed = {kind: copy.deepcopy(crd) for kind, crd in crds().items()}
    schema = spec_schema(changed["StatefulJob"])["properties"]
    schema["jobTemplate"]["properties"]["parallelism"] = {"type": "integer"}
    monkeypatch.setattr("tests.rules.spec_leaves.crds", lambda: changed)
    assert "StatefulJob.spec.jobTemplate.parallelism" in map(str, leaves_of("StatefulJob"))


def _count(schema: object) -> int:
    """Return how many places of a schema hold values: counted from its text, not by the plan's walk."""
    if not isinstance(schema, dict):
        return 0
    inside = [*schema.get("properties", {}).values(), schema.get("items")]
    inside.append(schema.get("additionalProperties"))
    return sum(_count(each) for each in inside) or 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each subject of each kind."""
    if "subject" in metafunc.fixturenames:
        subjects = [subject for kind in crds() for subject in subjects_of(kind)]
        metafunc.parametrize("subject", subjects, ids=str)


@dataclass(slots=True)
class Report:
    """What became of the leaves of a subject."""

    mutated: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)
    """Immutable: the server refused another value, by a rule that compares with the former object."""
    problems: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Mutations:
    """A story, and an object in it whose leaves are mutated."""

    story: Story
    subject: Subject
    chance: random.Random
    spec: dict[str, Any]
    calm: dict[str, Any] = field(default_factory=dict)
    kept: dict[str, str] = field(default_factory=dict)
    report: Report = field(default_factory=Report)
    once: list[tuple[Leaf, Any]] = field(default_factory=list)

    @property
    def harness(self) -> Harness:
        return self.story.harness

    @property
    def mapping(self) -> RESTMapping:
        return mapping_of(self.subject.kind)

    @property
    def namespace(self) -> str | None:
        return self.story.namespace if self.mapping.namespaced else None

    async def run(self, leaves: Iterable[Leaf]) -> Report:
        """Mutate leaves, those with the same surroundings together."""
        self.calm = await self.steady()
        self.kept = await self.uids()
        base, calm = self.spec, self.calm
        ordered = sorted(
            leaves,
            key=lambda leaf: (is_one_way(leaf), bool(transition_rules(leaf)), leaf.path[:-1]),
        )
        for _, group in groupby(ordered, key=lambda leaf: _text(with_ancestors(leaf, base))):
            members = list(group)
            self.spec, self.calm = with_ancestors(members[0], base), calm
            if self.spec != base and not await self.surround(members):
                self.spec = base
                continue
            before = len(self.once)
            for leaf in members:
                async with self.noting(leaf):
                    await self.mutate(leaf)
            base = self.with_once(base)
            surrounded, self.spec = self.spec != base, base
            if surrounded:
                async with self.noting(members[-1]):
                    await self.return_to(base, None if len(self.once) > before else calm)
            calm = self.calm
        return self.report

    @contextlib.asynccontextmanager
    async def noting(self, leaf: Leaf) -> AsyncIterator[None]:
        """Add what is wrong to the report, so that the other leaves have their turn."""
        logged = len(self.harness.log_text())
        try:
            yield
            log = self.harness.log_text()[logged:]
            assert "Traceback" not in log, log[-4000:]
        except (AssertionError, APIError, TimeoutError) as error:
            self.report.problems.append(f"{leaf}: {type(error).__name__}: {error}")
            with contextlib.suppress(APIError):
                await self.put(self.spec)
            self.calm, self.kept = await self.steady(), await self.uids()

    async def surround(self, members: list[Leaf]) -> bool:
        """Write what the leaves are in; what there is then is their calm."""
        try:
            await self.put(self.spec)
        except (Invalid, BadRequest) as error:
            for leaf in members:
                async with self.noting(leaf):
                    if not forbids(leaf, error):
                        raise
                    await self.afresh(leaf)
            return False
        await self.observed()
        self.calm = await self.steady()
        return True

    async def return_to(self, base: dict[str, Any], calm: dict[str, Any] | None) -> None:
        """Write the spec without what was put around leaves. ``calm``: None if a leaf of it stays as it was set."""
        await self.put(base)
        if calm is None:
            self.calm = await self.steady()
            return
        self.calm = calm
        await self.as_in(calm)

    async def mutate(self, leaf: Leaf) -> None:
        """Set a leaf that is not set, replace it, put it back."""
        former = value_at(leaf, self.spec)
        standing = former
        if former is ABSENT:
            standing = await self.write(leaf, plausible(leaf))
            if standing is ABSENT:
                await self.afresh(leaf)
                return
            await self.observed()
        others = [each for each in odd(leaf, self.chance) if _text(each) != _text(standing)]
        if await self.write(leaf, others) is not ABSENT:
            self.report.mutated.append(str(leaf))
            await self.observed()
            await self.quiet()
            await self.nothing_lost(leaf)
        if is_one_way(leaf):
            return
        await self.put_back(leaf, standing)
        await self.observed()
        await self.as_in(self.calm)
        await self.nothing_lost(leaf)

    async def put_back(self, leaf: Leaf, standing: object) -> None:
        """Write the spec as before; a leaf that can be set once only, as it stands, is the calm from now on."""
        try:
            await self.put(self.spec)
        except Invalid as error:
            if not forbids(leaf, error):
                raise
            self.once.append((leaf, standing))
            self.spec = self.with_once(self.spec)
            self.calm = await self.steady()

    def with_once(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return a spec with the leaves that can be set once only, as they were set."""
        for leaf, value in self.once:
            spec = replaced(leaf, with_ancestors(leaf, spec), value)
        return spec

    async def afresh(self, leaf: Leaf) -> None:
        """Set a leaf, which the server sets at creation only, on another object; its change is refused there."""
        client, gvk, name = (
            self.harness.client,
            self.mapping.gvk,
            f"{self.subject.name}-{len(self.report.refused) + len(self.report.problems)}",
        )
        for value in plausible(leaf):
            with contextlib.suppress(Invalid, BadRequest):
                spec = replaced(leaf, with_ancestors(leaf, self.spec), value)
                made = {"apiVersion": gvk.api_version, "kind": gvk.kind, "spec": spec}
                metadata = {"name": name, "namespace": self.namespace}
                await client.create({**made, "metadata": metadata})
                break
        else:
            raise AssertionError("no value is accepted at creation")
        await self.observed(name)
        refusals = []
        for other in (ABSENT, *odd(leaf, self.chance)):
            changed = replaced(leaf, spec, other)
            same = other is ABSENT and leaf.schema.get("default") == value_at(leaf, spec)
            if changed != spec and not same:
                refusals.append(await self.refusal(changed, name))
        assert any(forbids(leaf, refusal) for refusal in refusals), refusals
        self.report.refused.append(str(leaf))
        await self.harness.discard(self.mapping, name)

    async def refusal(self, spec: dict[str, Any], name: str) -> APIError:
        """Return the server's answer to a spec that it has to refuse."""
        try:
            await self.put(spec, name)
        except Invalid as error:
            return error
        raise AssertionError(f"another value was accepted: {_text(spec)}")

    async def write(self, leaf: Leaf, values: Iterable[Any]) -> Json:
        """Write the first value that the server accepts. Returns it, or :data:`ABSENT` if it is immutable."""
        refusal: APIError | None = None
        for value in values:
            try:
                await self.put(replaced(leaf, self.spec, value))
            except (Invalid, BadRequest) as error:
                refusal = error
                if forbids(leaf, error):
                    self.report.refused.append(str(leaf))
                    return ABSENT
                continue
            return value
        raise AssertionError(f"no value is accepted; the last was refused: {refusal}")

    async def put(self, spec: dict[str, Any], name: str = "") -> None:
        """Replace the spec."""
        client = self.harness.client
        async with asyncio.timeout(LIMIT):
            while True:
                gvk = self.mapping.gvk
                live = await client.get(gvk, name or self.subject.name, namespace=self.namespace)
                try:
                    await client.update({**live, "spec": spec})
                except Conflict:
                    continue
                return

    async def observed(self, name: str = "") -> None:
        """Wait until the status is of the present generation, and says why if something is not ready."""
        settled = self.harness.settled
        live = await settled(
            self.mapping, name or self.subject.name, namespace=self.namespace or ""
        )
        assert is_observed(live), live.get("status")
        for condition in verdicts(live):
            assert condition["status"] == "True" or condition["message"], condition
            if condition["reason"].startswith("Invalid"):
                assert self.names_a_field(condition["message"]), condition

    def names_a_field(self, message: str) -> bool:
        """Whether a message has the name of a field of the kind."""
        return any(step in message for leaf in leaves_of(self.subject.kind) for step in leaf.path)

    async def live(self) -> dict[str, Any]:
        client = self.harness.client
        return dict(await client.get(self.mapping.gvk, self.subject.name, namespace=self.namespace))

    async def state(self) -> dict[str, Any]:
        """Return what the story comes to, with the mutated object; an empty list means the same as none."""
        found = outcome_of(await self.story.objects(), self.harness.port)
        for each in found.values():
            for name in RECORDS:
                each["metadata"]["annotations"].pop(name, None)
        return {key: _filled(each) for key, each in found.items() if not IDENTITY.fullmatch(key)}

    async def uids(self) -> dict[str, str]:
        objects = await self.story.objects()
        return {
            key: each["metadata"]["uid"] for key, each in objects.items() if each["kind"] in KEPT
        }

    async def steady(self) -> dict[str, Any]:
        """Return the state once it has stayed the same: for a second, or for ten while a run may still be going on."""
        found, since = await self.state(), 0
        async with asyncio.timeout(2 * LIMIT):
            while since < (4 if all(each["ready"] is not False for each in found.values()) else 40):
                await asyncio.sleep(0.25)
                now = await self.state()
                found, since = now, since + 1 if now == found else 0
        return found

    async def quiet(self) -> None:
        """Wait until the manager does nothing more, for three seconds at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(3.0):
                await self.harness.idle()

    async def nothing_lost(self, leaf: Leaf) -> None:
        """Assert that the objects that hold data are those of the calm."""
        now = await self.uids()
        lost = [key for key, uid in self.kept.items() if now.get(key) != uid]
        if str(leaf).endswith(tuple(REMOVING)):
            self.kept = now
        elif lost:
            raise AssertionError(f"deleted: {lost}")

    async def as_in(self, calm: dict[str, Any]) -> None:
        """Wait until all is as it was in the calm."""
        found: dict[str, Any] = {}
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * LIMIT):
                while found != calm:
                    await asyncio.sleep(0.1 if found else 0)
                    found = await self.state()
        if found != calm:
            raise AssertionError(f"not as in the calm:{_difference(found, calm)}")


def _filled(value: object) -> Json:
    """Return a value without the empty lists and objects in it."""
    if isinstance(value, dict):
        pairs = ((key, _filled(each)) for key, each in value.items())
        return {key: each for key, each in pairs if each not in ([], {})}
    return [_filled(each) for each in value] if isinstance(value, list) else value


def is_one_way(leaf: Leaf) -> bool:
    """Whether the former value does not bring back the former state."""
    return str(leaf).endswith(tuple(ONE_WAY))


def forbids(leaf: Leaf, error: APIError) -> bool:
    """Whether a refusal is by a rule that compares the leaf, or what it is in, with the former object."""
    return any(rule in str(error) for rule in transition_rules(leaf))


def _text(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _difference(found: object, calm: object, path: str = "") -> str:
    """Return what is not as in the calm, a line for each value: now, and then."""
    if isinstance(found, dict) and isinstance(calm, dict):
        lines = (
            _difference(found.get(key), calm.get(key), f"{path}.{key}")
            for key in sorted(found.keys() | calm.keys())
        )
        return "".join(line for line in lines if line)
    return "" if found == calm else f"\n  {path}: {_text(found)[:900]}, was {_text(calm)[:900]}"


@contextlib.asynccontextmanager
async def fleet_operator(harness: Harness) -> AsyncIterator[None]:
    """Run `manager operator`, which reconciles the FleetConfig, for the length of the block."""
    manager = make_manager(harness.environment.config("manager"), name="operator")
    add_operator(manager, OperatorOptions(stack=StackOptions(image="stack:v1")))
    async with manager.running():
        yield


@pytest.mark.slow
@pytest.mark.timeout(7200)
@pytest.mark.criterion("H-R4")
async def test_what_a_changed_leaf_did_is_over_when_it_is_put_back(
    subject: Subject, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    seed = request.config.getoption("--hypothesis-seed") or SEED
    chance = random.Random(f"{subject}-{seed}")
    leaves = subject.leaves()
    if request.config.getoption("--rule-examples") < 100:
        leaves = chance.sample(leaves, min(FEW, len(leaves)))
    async with contextlib.AsyncExitStack() as stack:
        harness = await stack.enter_async_context(Harness.start(tmp_path, nodes=True))
        if subject.kind == "FleetConfig":
            await stack.enter_async_context(fleet_operator(harness))
        story = Story(harness, "team-a", "shop")
        await story.begin()
        await story.complete(2 * LIMIT)
        spec = await subject.create(story)
        report = await Mutations(story, subject, chance, spec).run(leaves)
    print(f"\nseed {seed}: {subject}: {len(report.mutated)} mutated, {len(report.refused)} refused")
    assert report.problems == [], f"--hypothesis-seed={seed}: " + "\n".join(report.problems)
    reached = set(report.mutated) | set(report.refused)
    assert {str(leaf) for leaf in leaves} == reached

"""Templates as their tenants need them, and what is wrong with them; each looked at once."""

from collections.abc import Iterable, Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field

from pydantic import ValidationError

from apis.tenancy import Hook, Tenant, TenantRegistry, TenantTemplate, TResource, resource_lists
from ctrlruntime.api.kinds import GroupVersionKind
from ctrlruntime.cache.entry import Entry, Key
from ctrlruntime.controller.loop_yielder import LoopYielder
from ctrlruntime.lifecycle.status import describe
from ctrlruntime.memo import VersionMemo
from ctrlruntime.queue import Request
from ctrlruntime.rollout import Strategy
from internal.tenancy.objects.builder import hook_resource
from internal.tenancy.objects.graph import (
    MOST_DEPENDENCIES,
    MOST_RESOURCES,
    Graph,
    GraphError,
    load,
)
from internal.tenancy.objects.ignore_fields import check
from internal.tenancy.objects.ready_when import check_ready_when
from internal.tenancy.objects.recreation import check_recreation
from internal.tenancy.rendering import Manifest, Renderer, RenderError, combine
from internal.tenancy.rendering.functions import FUNCTIONS, REFUSED
from internal.tenancy.rendering.manifests import strings
from internal.tenancy.shared.privileges import PrivilegeRefused, Privileges
from internal.tenancy.sync.tenants import Blueprint
from internal.tenancy.template.rollouts import rollout_problems, strategy_of
from internal.tenancy.tenant.hooks import check_hook

MOST_TEMPLATES_IN_ALL = 5000
"""Most template strings of one object: compiling one takes about a millisecond."""
ALWAYS_KNOWN = frozenset({"uid", "activate", "registryId", "hubId", "templateRef"})


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a template, or with one of its resources."""

    text: str
    resource: str = ""
    """Id of the resource; empty if it is the template."""
    at: str = ""
    """Id of the resource where it can be fixed, if `text` names it already."""
    fix: str = ""
    """What to do, if `text` does not say it."""

    def __str__(self) -> str:
        return f"{self.resource}: {self.text}" if self.resource else self.text


@dataclass(frozen=True, slots=True)
class Verdict:
    """What can be said of a template without any row."""

    found: tuple[Problem, ...]
    variables: frozenset[str]
    """Variables that it reads and gives no default."""
    generated: frozenset[str] = frozenset()
    """Variables that are drawn for each tenant."""
    cyclic: bool = False
    refused: bool = False
    """Whether it needs what the manager does not allow templates."""
    lost: tuple[Problem, ...] = ()
    """What conversions of values that are written out lose."""
    too_large: bool = False
    """Whether nothing was examined but the size."""
    lasting: bool = True
    """Whether another examination finds the same; False: the rendering process failed."""

    @property
    def problems(self) -> tuple[str, ...]:
        """One sentence each."""
        return tuple(map(str, self.found))


@dataclass(frozen=True, slots=True)
class _Report:
    texts: list[str]
    variables: Set[str]
    lost: tuple[str, ...] = ()


@dataclass(slots=True)
class _Findings:
    """What an examination has found so far."""

    problems: list[Problem]
    variables: set[str] = field(default_factory=set)
    cyclic: bool = False
    refused: bool = False
    lost: list[Problem] = field(default_factory=list)
    lasting: bool = True


@dataclass(slots=True)
class Blueprints:
    """Checks and prepares templates, remembering the result per version of each."""

    renderer: Renderer
    privileges: Privileges = field(default_factory=Privileges)
    pace: LoopYielder = field(default_factory=LoopYielder)
    _prepared: VersionMemo[Key, Blueprint | None] = field(default_factory=VersionMemo)
    _rollouts: VersionMemo[Key, tuple[Strategy, bool] | None] = field(default_factory=VersionMemo)
    _verdicts: VersionMemo[Key, Verdict] = field(default_factory=VersionMemo)

    def of(self, entries: Iterable[Entry]) -> dict[str, Blueprint]:
        """Blueprints by template name; a template that cannot be read has none."""
        made = {entry.name: self._blueprint(entry) for entry in entries}
        return {name: blueprint for name, blueprint in made.items() if blueprint is not None}

    async def invalid(self, entries: Iterable[Entry], registry: TenantRegistry) -> dict[str, str]:
        """Return the templates that must not be rolled out, with the first reason."""
        verdicts = {entry.name: await self.verdict(entry) for entry in entries}
        problems = {
            name: [*verdict.problems, *problems_with(verdict, registry)]
            for name, verdict in verdicts.items()
        }
        return {name: found[0] for name, found in problems.items() if found}

    def strategy(self, entry: Entry) -> Strategy | None:
        """Return how a template is rolled out; None: to all tenants at once, or it cannot be read."""
        found = self._rollout(entry)
        return None if found is None else found[0]

    def stages_rows(self, entry: Entry) -> bool:
        """Whether changed rows take part in the rollout of a template."""
        found = self._rollout(entry)
        return found is not None and found[1]

    async def verdict(self, entry: Entry) -> Verdict:
        """Return what is wrong with a template."""
        version = _version(entry)
        known = self._verdicts.get(entry.key, version)
        if known is not None:
            return known
        try:
            verdict = await self.examine(entry.typed(TenantTemplate))
        except ValidationError as error:
            verdict = Verdict((Problem(describe(error)),), frozenset())
        if not verdict.lasting:
            return verdict
        return self._verdicts.put(entry.key, version, verdict)

    def forget(self, request: Request) -> None:
        """Forget a template that is gone."""
        for memo in (self._prepared, self._verdicts, self._rollouts):
            memo.forget((request.namespace, request.name))

    def _rollout(self, entry: Entry) -> tuple[Strategy, bool] | None:
        return self._rollouts.compute(entry.key, _version(entry), lambda: _rollout(entry))

    def _blueprint(self, entry: Entry) -> Blueprint | None:
        return self._prepared.compute(entry.key, _version(entry), lambda: _blueprint(entry))

    async def examine(self, template: TenantTemplate | Tenant) -> Verdict:
        """Return what is wrong with the lists of a template or a tenant as they are, stored or not."""
        rollout = template.spec.rollout if isinstance(template, TenantTemplate) else None
        found = _Findings([Problem(text) for text in rollout_problems(rollout)])
        resources = [resource for _, resource in resource_lists(template.spec)]
        if problem := await self._size_problem(resources, template.spec.hooks):
            return Verdict((problem,), frozenset(), too_large=True)
        await load()
        try:
            Graph.of(resources)
        except GraphError as error:
            found.problems += (Problem(each.text, at=each.id, fix=each.fix) for each in error.found)
            found.cyclic = error.cyclic
        namespace = template.metadata.namespace or ""
        for resource in resources:
            await self.pace.maybe_yield()
            await self._look(resource, _own_problems(resource), resource.id, namespace, found)
        for hook in template.spec.hooks:
            resource, name = hook_resource(hook), f"hooks.{hook.id}"
            await self._look(resource, check_hook(hook), name, namespace, found)
        drawn = frozenset(template.spec.generate)
        needed = frozenset(found.variables) - drawn
        return Verdict(
            tuple(found.problems),
            needed,
            drawn,
            found.cyclic,
            found.refused,
            tuple(found.lost),
            lasting=found.lasting,
        )

    async def _size_problem(
        self, resources: Sequence[TResource], hooks: Sequence[Hook]
    ) -> Problem | None:
        """Return why lists are too large to be examined, or None."""
        if (count := len(resources)) > MOST_RESOURCES:
            text = f"{count} resources are more than the {MOST_RESOURCES} allowed"
            return Problem(text, fix="split the template in two")
        if (count := len(hooks)) > MOST_RESOURCES:
            return Problem(f"{count} hooks are more than the {MOST_RESOURCES} allowed")
        if (count := sum(len(each.depend_ids) for each in resources)) > MOST_DEPENDENCIES:
            text = f"{count} ids in dependIds are more than the {MOST_DEPENDENCIES} allowed"
            return Problem(
                text, fix="have resources depend on a few others, which depend on the rest"
            )
        total = 0
        for spec in (*(each.spec for each in resources), *(each.spec for each in hooks)):
            await self.pace.maybe_yield()
            with suppress(RenderError):  # too many values: found with its resource
                total += sum(1 for _ in strings(spec))
        if total > MOST_TEMPLATES_IN_ALL:
            text = (
                f"{total} templates are more than the {MOST_TEMPLATES_IN_ALL} allowed in one object"
            )
            return Problem(text, fix="write several values into one template, or split the object")
        return None

    async def _look(
        self, resource: TResource, texts: list[str], name: str, namespace: str, found: _Findings
    ) -> None:
        """Add what is wrong with a resource, besides `texts`, and the variables that it reads."""
        try:
            report = await self._report(resource, namespace)
        except PrivilegeRefused as error:
            texts.append(str(error))
            found.refused = True
        except (RenderError, ValueError) as error:
            texts.append(str(error))
            found.lasting &= not (isinstance(error, RenderError) and error.transient)
        else:
            texts += report.texts
            found.variables |= report.variables
            found.lost += (Problem(text, name) for text in report.lost)
        found.problems += (Problem(text, name) for text in dict.fromkeys(texts))

    async def _report(self, resource: TResource, namespace: str) -> _Report:
        """Raise PrivilegeRefused, RenderError or ValueError for what cannot even be looked at."""
        _plain(GroupVersionKind.of(resource.spec))
        manifest = combine(
            resource.spec,
            name=resource.name_template,
            namespace=resource.target_namespace,
            labels=resource.labels_template,
            annotations=resource.annotations_template,
        )
        self.privileges.check_template(manifest, namespace)
        renderer = self.renderer.for_namespace(namespace)
        report = await renderer.check(manifest)
        choice = await renderer.check(_choice(resource))
        texts = [*map(str, (*report.errors, *choice.errors)), *_no_name(manifest)]
        needed = (report.variables - report.optional) | (choice.variables - choice.optional)
        lost = (*report.lost, *choice.lost)
        each = resource.for_each
        if each is None:
            return _Report(texts, needed, lost)
        if each.variable in ALWAYS_KNOWN:
            texts.append(f"forEach.variable: {each.variable!r} is the name of another variable")
        if each.variable in (await renderer.check({"items": each.items})).variables:
            texts.append(f"forEach.items: {each.variable!r} is there in the other templates only")
        return _Report(texts, needed - {each.variable}, lost)


def _own_problems(resource: TResource) -> list[str]:
    """Return what is wrong with the fields of an entry besides its templates."""
    texts = check(resource.ignore_fields)
    try:
        gvk = GroupVersionKind.of(resource.spec)
    except ValueError:
        return texts
    return [
        *texts,
        *check_ready_when(resource.ready_when, gvk),
        *check_recreation(resource, gvk.group_kind),
    ]


def _plain(gvk: GroupVersionKind) -> None:
    """Raise ValueError for a templated kind: what is watched is known before any row is."""
    if "{{" in gvk.api_version + gvk.kind or "{%" in gvk.api_version + gvk.kind:
        raise ValueError("apiVersion and kind must be written out; they may not be templates")


def _choice(resource: TResource) -> Manifest:
    """Return the templates that decide whether a resource is there, and how often."""
    found: Manifest = {} if resource.when is None else {"when": resource.when}
    if resource.for_each is not None:
        found["forEach"] = {"items": resource.for_each.items}
    return found


def _no_name(manifest: dict[str, object]) -> list[str]:
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict) and metadata.get("name"):
        return []
    return ["it has neither nameTemplate nor spec.metadata.name"]


def bare_functions(variables: Iterable[str], known: Set[str]) -> list[str]:
    """Return what is wrong with functions that are written like variables, one sentence each.

    `{{ now }}` reads a variable if one of that name is known; else the function is meant.
    """
    unmapped = frozenset(variables) - known
    return [
        f"the function {name!r} is refused: {REFUSED[name]}"
        if name in REFUSED
        else f"the function {name!r} has no arguments; write for example {{{{ uid | {name} }}}}"
        for name in sorted(unmapped)
        if name in REFUSED or name in FUNCTIONS
    ]


def problems_with(verdict: Verdict, registry: TenantRegistry) -> list[str]:
    """Return what is wrong with a template where this is its registry, one sentence each."""
    taken = sorted(verdict.generated & variables_of(registry))
    return [
        *bare_functions(verdict.variables, variables_of(registry)),
        *(
            f"generate.{name}: the rows have a variable of that name; choose another"
            for name in taken
        ),
    ]


def variables_of(registry: TenantRegistry) -> frozenset[str]:
    """Return the variables that a registry's rows give."""
    known = ALWAYS_KNOWN | frozenset(registry.spec.extra_value_mappings)
    if registry.spec.value_mappings.host_or_url:
        known |= {"hostOrUrl", "host"}
    return known


def _version(entry: Entry) -> tuple[str, int]:
    return entry.uid, entry.generation


def _rollout(entry: Entry) -> tuple[Strategy, bool] | None:
    try:
        rollout = entry.typed(TenantTemplate).spec.rollout
    except ValidationError:
        return None
    return None if rollout is None else (strategy_of(rollout), rollout.rows)


def _blueprint(entry: Entry) -> Blueprint | None:
    try:
        return Blueprint.of(entry.typed(TenantTemplate))
    except ValidationError:
        return None

"""What a program declares, read from a manager that is never started.

def setup(manager: Manager) -> None:
    Builder(manager).for_(Website).owns(DEPLOYMENT).build(reconcile)

declarations_of(setup).rules
"""

from __future__ import annotations

import asyncio
import inspect
import warnings
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from ctrlruntime.api.builtin import BUILTIN
from ctrlruntime.api.kinds import GroupKind, GroupVersionKind, RESTMapping
from ctrlruntime.api.resource import Resource
from ctrlruntime.client.config import Config
from ctrlruntime.manager import Manager, ManagerOptions

from .errors import DeployWarning
from .layout import METRICS_AUTH, SYSTEM
from .permissions import Rule, declared, leads, limit_to_namespaces, writes_events
from .webhook import Webhook, serves_webhooks, webhooks_of

__all__ = ["Declarations", "Setup", "SetupError", "declarations_of"]

Setup = Callable[[Manager], object]
"""Adds controllers and declarations to a manager; a coroutine function is awaited."""

NOWHERE = Config(host="http://127.0.0.1:9")


class SetupError(ValueError):
    """A setup function that does not declare anything without an API server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Declarations:
    """What a setup function declares."""

    rules: tuple[Rule, ...]
    kinds: tuple[type[Resource[Any, Any]], ...]
    """The Resource classes that controllers are for or that are converted, in the order of their GVKs."""
    webhooks: tuple[Webhook, ...] = ()
    """Those of the kinds registered with ``manager.webhooks``, at the paths that are served."""
    paths: tuple[str, ...] = ()
    """Where admission reviews are served."""
    converted: frozenset[GroupKind] = frozenset()
    """The kinds between whose versions the manager converts."""


def declarations_of(setup: Setup, options: ManagerOptions | None = None) -> Declarations:
    """Call ``setup`` with a manager that is never started, and return what it declared.

    The rules hold what the controllers' ``for_``, ``owns``, ``watches`` and ``permission`` imply, what
    the cache's declarations read, and events. Of ``options`` they hold leader election, access checks
    of the metrics and, where webhooks are registered, their certificates. With ``options.namespaces``
    they are limited to these. Rules of the manager's own namespace are in ``system``, which
    kustomize replaces, where the options name none. Raises SetupError when ``setup`` fails.
    """
    return asyncio.run(_declarations(setup, options or ManagerOptions()))


async def _declarations(setup: Setup, options: ManagerOptions) -> Declarations:
    quiet = replace(
        options,
        leader_election=False,
        metrics_bind_address="0",
        health_bind_address="0",
        diagnostics_bind_address="0",
    )
    manager = Manager(NOWHERE, quiet)
    try:
        await _call(setup, manager)
        rules = declared(manager.permissions())
        if options.namespaces:
            rules = (*limit_to_namespaces(rules, options.namespaces, _cluster_scoped(manager)),)
        rules += _own_rules(manager, options)
        application = manager.webhooks.application
        return Declarations(
            rules=tuple(rules),
            kinds=_kinds(manager),
            webhooks=tuple(_webhooks(manager)),
            paths=application.admission_paths if manager.webhooks.enabled else (),
            converted=frozenset(each.group_kind for each in application.conversions),
        )
    finally:
        manager.close()
        await manager.live_client.close()


async def _call(setup: Setup, manager: Manager) -> None:
    try:
        result = setup(manager)
        if inspect.isawaitable(result):
            await _awaited(result)
    except Exception as error:
        name = getattr(setup, "__qualname__", repr(setup))
        raise SetupError(
            f"{name}(manager) failed with {type(error).__name__}: {error}. It is called with a manager "
            "and no API server: it has to declare only, and to leave requests to reconcilers and runnables"
        ) from error


async def _awaited(result: Awaitable[object]) -> None:
    await result


def _own_rules(manager: Manager, options: ManagerOptions) -> tuple[Rule, ...]:
    """Return what the manager itself needs besides what it watches."""
    rules: tuple[Rule, ...] = ()
    if options.leader_election:
        place = options.leader_election_namespace or SYSTEM
        leases = (options.leader_election_id, options.leader_election_shared_id)
        rules += leads(*leases, namespace=place)
        if options.namespaces and options.leader_election_events:
            rules += writes_events(place)
    if options.metrics.authorize:
        rules += METRICS_AUTH
    webhook = options.webhook
    if manager.webhooks.enabled and webhook.certificate_folder is None:
        rules += serves_webhooks(
            webhook.secret_name,
            webhook.secret_namespace or SYSTEM,
            mutating=webhook.mutating_configurations,
            validating=webhook.validating_configurations,
            definitions=manager.webhooks.converted_crds,
            annotated=webhook.inject_annotated,
        )
    elif manager.webhooks.enabled and (names := manager.webhooks.converted_crds):
        rules += (
            Rule(
                groups=("apiextensions.k8s.io",),
                resources=("customresourcedefinitions",),
                verbs=("get",),
                names=tuple(names),
            ),
        )
    return rules


def _webhooks(manager: Manager) -> Iterator[Webhook]:
    """Yield the webhooks of what is registered. Warn of a kind without a class whose plural is unknown."""
    for each in manager.webhooks.application.registrations if manager.webhooks.enabled else ():
        kind: type[Resource[Any, Any]] | RESTMapping
        if isinstance(each.kind, GroupVersionKind):
            found = _mapping(manager, each.kind)
            if found is None:
                warnings.warn(
                    f"no webhooks for {each.kind}, whose plural is unknown: declare it with manager.cache.declare, "
                    "or list its webhooks as WEBHOOKS",
                    DeployWarning,
                    stacklevel=2,
                )
                continue
            kind = found
        else:
            kind = each.kind
        for hook in webhooks_of(kind, *each.steps, options=each.options):
            path = each.mutating_path if hook.mutating else each.validating_path
            yield replace(hook, path=path)


def _mapping(manager: Manager, gvk: GroupVersionKind) -> RESTMapping | None:
    return BUILTIN.get(gvk) or next(
        (each for each in manager.cache.declared() if each.gvk == gvk), None
    )


def _cluster_scoped(manager: Manager) -> set[tuple[str, str]]:
    mappings = [*BUILTIN.values(), *manager.cache.declared()]
    return {(each.gvk.group, each.plural) for each in mappings if not each.namespaced}


def _kinds(manager: Manager) -> tuple[type[Resource[Any, Any]], ...]:
    found = {
        kind
        for kind in manager.primary_kinds()
        if isinstance(kind, type) and issubclass(kind, Resource)
    }
    found |= {kind for each in manager.webhooks.application.conversions for kind in each.kinds}
    return tuple(sorted(found, key=lambda kind: kind.gvk()))

"""What modules and setup functions declare, together."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ctrlruntime.api.resource import Resource
from ctrlruntime.manager import ManagerOptions

from .discovery import find_kinds, find_rules, find_webhooks, load
from .permissions import Rule
from .setup import SetupError, declarations_of
from .webhook import SERVICE_NAME, SERVICE_NAMESPACE, Webhook, webhooks_of

__all__ = ["Found", "find"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Kinds, rules and webhooks of a program."""

    kinds: Sequence[type[Resource[Any, Any]]]
    rules: Sequence[Rule]
    webhooks: Sequence[Webhook]
    service_name: str = SERVICE_NAME
    """Of the webhooks."""
    service_namespace: str = SERVICE_NAMESPACE


def find(
    modules: Sequence[str], setups: Sequence[str] = (), options_name: str | None = None
) -> Found:
    """Return what these modules and setup functions declare.

    ``setups`` and ``options_name`` are "module:name". The module of a setup function is looked in, too.
    Raises ImportError, and SetupError for a name that is not what it has to be.
    """
    options = _options(options_name) if options_name else None
    declarations = [declarations_of(_setup(name), options) for name in setups]
    loaded = load([*modules, *(name.partition(":")[0] for name in setups)])
    kinds = find_kinds(loaded)
    others = sorted(
        {kind for each in declarations for kind in each.kinds} - set(kinds),
        key=lambda kind: kind.gvk(),
    )
    return Found(
        kinds=[*kinds, *others],
        rules=[*find_rules(loaded), *(rule for each in declarations for rule in each.rules)],
        webhooks=[*find_webhooks(loaded), *(hook for kind in others for hook in webhooks_of(kind))],
        service_name=options.webhook.service_name if options else SERVICE_NAME,
        service_namespace=(options and options.webhook.secret_namespace) or SERVICE_NAMESPACE,
    )


def _setup(name: str) -> Callable[..., object]:
    found = _named(name, "--setup", "website:setup")
    if not callable(found):
        raise SetupError(f"{name} is no function: --setup takes one that gets the manager")
    return found


def _options(name: str) -> ManagerOptions:
    found = _named(name, "--options", "website:OPTIONS")
    if not isinstance(found, ManagerOptions):
        raise SetupError(f"{name} is no ManagerOptions: --options takes the program's")
    return found


def _named(name: str, option: str, example: str) -> object:
    module, colon, attribute = name.partition(":")
    if not (module and colon and attribute):
        raise SetupError(f"{option} {name}: name the module and what is in it, as in {example}")
    loaded = importlib.import_module(module)
    try:
        return getattr(loaded, attribute)
    except AttributeError:
        raise SetupError(f"{option} {name}: module {module} has no {attribute}") from None

"""What modules and setup functions declare, together."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any

from ctrlruntime.api.resource import Resource
from ctrlruntime.manager import ManagerOptions
from ctrlruntime.webhook.conversion import Spoke

from .discovery import find_kinds, find_rules, find_webhooks, listed_webhooks, load
from .errors import DeployWarning
from .permissions import Rule
from .setup import Declarations, SetupError, declarations_of
from .webhook import SERVICE_NAME, SERVICE_NAMESPACE, Webhook, webhooks_of

__all__ = ["Found", "find"]

OPTIONS_NAME = "OPTIONS"
"""ManagerOptions of this name, in the module of a setup function, are the program's where none are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Kinds, rules and webhooks of a program."""

    kinds: Sequence[type[Resource[Any, Any]]]
    rules: Sequence[Rule]
    webhooks: Sequence[Webhook]
    options: ManagerOptions | None = None
    """Of the program, where they are known."""
    serves: bool = False
    """Whether the program serves admission or conversion."""

    @property
    def service_name(self) -> str:
        """The Service of the webhooks."""
        return self.options.webhook.service_name if self.options else SERVICE_NAME

    @property
    def service_namespace(self) -> str:
        return (self.options and self.options.webhook.secret_namespace) or SERVICE_NAMESPACE


def find(
    modules: Sequence[str], setups: Sequence[str] = (), options_name: str | None = None
) -> Found:
    """Return what these modules and setup functions declare.

    ``setups`` and ``options_name`` are "module:name". The module of a setup function is looked in, too: its ``OPTIONS``
    are the program's without ``options_name``. With setup functions, webhooks are those that they register, and lists
    named ``WEBHOOKS``. Raises ImportError, and SetupError for a name that is not what it has to be.
    """
    called = [_setup(name) for name in setups]
    options = _options(options_name) if options_name else _options_beside(setups)
    declarations = [declarations_of(setup, options) for setup in called]
    loaded = load([*modules, *(name.partition(":")[0] for name in setups)])
    kinds = find_kinds(loaded)
    others = sorted(
        {kind for each in declarations for kind in each.kinds} - set(kinds),
        key=lambda kind: kind.gvk(),
    )
    found = Found(
        kinds=[*kinds, *others],
        rules=[*find_rules(loaded), *(rule for each in declarations for rule in each.rules)],
        webhooks=(),
        options=options,
        serves=any(each.paths or each.converted for each in declarations),
    )
    if not setups:
        return replace(found, webhooks=find_webhooks(loaded))
    webhooks = [_at_service(hook, found) for hook in _served(loaded, declarations)]
    _warn_of_unserved(found.kinds, webhooks, declarations)
    return replace(found, webhooks=webhooks)


def _served(loaded: Iterable[ModuleType], declarations: Iterable[Declarations]) -> list[Webhook]:
    """Return the webhooks that are listed and, at other paths, those that are registered."""
    listed = listed_webhooks(loaded)
    paths = {hook.path for hook in listed}
    registered = [hook for each in declarations for hook in each.webhooks]
    return [*listed, *(hook for hook in registered if hook.path not in paths)]


def _at_service(hook: Webhook, found: Found) -> Webhook:
    """Return the webhook at the Service of the options, unless it names one of its own."""
    if (hook.service_name, hook.service_namespace) != (SERVICE_NAME, SERVICE_NAMESPACE):
        return hook
    return replace(hook, service_name=found.service_name, service_namespace=found.service_namespace)


def _warn_of_unserved(
    kinds: Iterable[type[Resource[Any, Any]]],
    webhooks: Iterable[Webhook],
    declarations: Collection[Declarations],
) -> None:
    """Warn of what the classes declare and no setup function serves, and the other way round."""
    paths = {path for each in declarations for path in each.paths}
    called = {hook.path for hook in webhooks if hook.path}
    converted = {kind for each in declarations for kind in each.converted}
    missing = [
        f"nothing serves the webhook at {path}: register it with manager.webhooks in the setup function"
        for path in sorted(called - paths)
    ]
    missing += [
        f"nothing calls the webhook at {path}: list it as Webhook(path={path!r}, ...) in WEBHOOKS"
        for path in sorted(paths - called)
    ]
    for kind in kinds:
        own = {hook.path for hook in webhooks_of(kind)}
        if own and not own & called:
            missing.append(
                f"{kind.__name__} declares admission that nothing serves: call "
                f"manager.webhooks.register({kind.__name__}) in the setup function"
            )
        if issubclass(kind, Spoke) and kind.gvk().group_kind not in converted:
            missing.append(
                f"{kind.__name__} is a version that nothing converts: call manager.webhooks.convert in the setup function"
            )
    for message in missing:
        warnings.warn(message, DeployWarning, stacklevel=3)


def _options_beside(setups: Iterable[str]) -> ManagerOptions | None:
    """Return the OPTIONS of the module of a setup function, the first that has some."""
    modules = [importlib.import_module(name.partition(":")[0]) for name in setups]
    found = [getattr(module, OPTIONS_NAME, None) for module in modules]
    return next((each for each in found if isinstance(each, ManagerOptions)), None)


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

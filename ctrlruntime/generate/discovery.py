"""What the modules of a program declare: kinds, rules, webhooks."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from ctrlruntime.api.resource import Resource

from .permissions import Rule, rules_of
from .webhook import Webhook, webhooks_of

__all__ = ["find_kinds", "find_rules", "find_webhooks", "listed_webhooks", "load"]

RULES_NAME = "RBAC"
WEBHOOKS_NAME = "WEBHOOKS"


def load(names: Iterable[str]) -> list[ModuleType]:
    """Import modules and, of packages, everything below. Raises ImportError naming the module."""
    modules: dict[str, ModuleType] = {}
    for name in names:
        module = importlib.import_module(name)
        modules[name] = module
        for info in pkgutil.walk_packages(getattr(module, "__path__", ()), f"{name}."):
            if not info.name.endswith(".__main__"):
                modules[info.name] = importlib.import_module(info.name)
    return [modules[name] for name in sorted(modules)]


def find_kinds(modules: Iterable[ModuleType]) -> list[type[Resource[Any, Any]]]:
    """Return the kinds defined in these modules (not those they import), in the order of their GVKs."""
    kinds = {
        value
        for module, value in _members(modules)
        if isinstance(value, type)
        and issubclass(value, Resource)
        and value.kind_options is not None
        and value.__module__ == module.__name__
    }
    return sorted(kinds, key=lambda kind: kind.gvk())


def find_rules(modules: Iterable[ModuleType]) -> list[Rule]:
    """Rules attached with ``@rbac`` to what these modules define, and lists named ``RBAC``."""
    rules: list[Rule] = []
    for module, value in _members(modules):
        if getattr(value, "__module__", None) == module.__name__:
            rules += rules_of(value)
    for module in modules:
        rules += getattr(module, RULES_NAME, ())
    return rules


def find_webhooks(modules: Iterable[ModuleType]) -> list[Webhook]:
    """Return the webhooks that kinds declare, and those in lists named ``WEBHOOKS``."""
    known = list(modules)
    declared = [hook for kind in find_kinds(known) for hook in webhooks_of(kind)]
    return [*listed_webhooks(known), *declared]


def listed_webhooks(modules: Iterable[ModuleType]) -> list[Webhook]:
    """Return the webhooks in lists named ``WEBHOOKS``."""
    hooks = [hook for module in modules for hook in getattr(module, WEBHOOKS_NAME, ())]
    return list({id(hook): hook for hook in hooks}.values())


def _members(modules: Iterable[ModuleType]) -> Iterator[tuple[ModuleType, Any]]:
    for module in modules:
        for name in sorted(vars(module)):
            yield module, vars(module)[name]
